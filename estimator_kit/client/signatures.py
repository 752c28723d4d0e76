"""The metadata of a model: its version and its signatures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

from . import tensors

# The signature of a request that names none.
DEFAULT_SIGNATURE = "serving_default"


@dataclasses.dataclass(frozen=True)
class TensorForm:
    """One tensor of a signature.

    Attributes:
      dtype: TensorFlow's name of its type, for example `float`.
      shape: its sizes, with None for any size; None if the rank is unknown.
    """

    dtype: str
    shape: Optional[tuple[Optional[int], ...]]

    @property
    def numpy(self) -> Any:
        """The NumPy type of its arrays; `object` for strings."""
        numbers = {name: number for number, name in tensors.NAMES.items()}
        return tensors.numpy_type(numbers.get(self.dtype, 0))


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature of a model, with the content of its `SignatureDef`."""

    inputs: Mapping[str, TensorForm]
    outputs: Mapping[str, TensorForm]
    method: str


@dataclasses.dataclass(frozen=True)
class Metadata:
    """A version of a model and its signatures by name."""

    version: int
    signatures: Mapping[str, Signature]


def of_message(signature: Any) -> Signature:
    """The signature of a `SignatureDef`, which may be of any class."""
    return Signature(
        {name: _form(info) for name, info in sorted(signature.inputs.items())},
        {name: _form(info) for name, info in sorted(signature.outputs.items())},
        signature.method_name,
    )


def _form(info: Any) -> TensorForm:
    shape = info.tensor_shape
    sizes = tuple(None if dim.size < 0 else dim.size for dim in shape.dim)
    name = tensors.NAMES.get(info.dtype, str(info.dtype))
    return TensorForm(name, None if shape.unknown_rank else sizes)


def of_json(signature: Mapping[str, Any]) -> Signature:
    """The signature in the JSON of the REST path `metadata`."""
    return Signature(
        {name: _json_form(info) for name, info in sorted(signature.get("inputs", {}).items())},
        {name: _json_form(info) for name, info in sorted(signature.get("outputs", {}).items())},
        signature.get("method_name", ""),
    )


def _json_form(info: Mapping[str, Any]) -> TensorForm:
    shape = info.get("tensor_shape", {})
    sizes = tuple(
        None if int(dim.get("size", 0)) < 0 else int(dim.get("size", 0))
        for dim in shape.get("dim", [])
    )
    name = str(info.get("dtype", "")).removeprefix("DT_").lower()
    return TensorForm(name, None if shape.get("unknown_rank") else sizes)
