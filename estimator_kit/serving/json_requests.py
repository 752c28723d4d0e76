"""The bodies of REST requests: JSON becomes the arrays of a signature, or Examples.

The format is the one that TensorFlow Serving documents for its RESTful API. Predict takes
`instances`, a list of rows, or `inputs`, an array for each input. Classify and regress take
`examples` with a common `context`. Bytes are `{"b64": ...}`. A number with a point or an exponent
is a float, any other number an integer. A float input takes both, and rounds what it cannot hold,
if necessary to infinity. An integer input takes integers. An array has the shape of its lists,
whatever the signature says.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from estimator_kit.client import messages, tensors
from estimator_kit.serving.errors import RequestError, check_names, invalid
from feature_specs.errors import path_text, value_text

# The limit of all NumPy releases.
_MOST_DIMENSIONS = 32

_INTEGERS = {
    3: (-(2**31), 2**31),
    4: (0, 2**8),
    5: (-(2**15), 2**15),
    6: (-(2**7), 2**7),
    9: (-(2**63), 2**63),
    22: (0, 2**32),
    23: (0, 2**64),
}


def parse(body: bytes) -> dict[str, Any]:
    """The JSON object of a body.

    Raises:
      RequestError: the body is not a JSON object, or is nested deeper than Python reads.
    """
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise invalid(f"the body is not JSON that can be read: {error}") from error
    if not isinstance(document, dict):
        raise invalid(f"the body: expected an object, got {value_text(document)}")
    return document


def signature_name(document: Mapping[str, Any]) -> str:
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(f"signature_name: expected a string, got {value_text(name)}")
    return name


def predict_inputs(
    document: Mapping[str, Any], inputs: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], bool]:
    """The arrays of a predict request, and whether the request has `instances`.

    Args:
      document: the request.
      inputs: `{input: TensorInfo}` of the signature.
    """
    by_row = "instances" in document
    if by_row == ("inputs" in document):
        raise invalid(f"expected `instances` or `inputs`, got {'both' if by_row else 'neither'}")
    if not inputs:
        raise invalid("the signature has no input")
    columns = _columns(document["instances"], inputs) if by_row else _named(document, inputs)
    return {name: _array(name, columns[name], info) for name, info in inputs.items()}, by_row


def examples(document: Mapping[str, Any]) -> tuple[bytes, list[bytes]]:
    """The serialized context and Examples of a classify or regress request."""
    context = _example("context", document["context"]) if "context" in document else b""
    rows = _rows("examples", document.get("examples"))
    return context, [_example(path_text(("examples", i)), row) for i, row in enumerate(rows)]


def _rows(place: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise invalid(f"{place}: expected a list with at least one row, got {value_text(value)}")
    return value


def _columns(rows: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of `instances` as a list of values for each input."""
    rows = _rows("instances", rows)
    if len(inputs) == 1 and not _is_object(rows[0]):
        return dict.fromkeys(inputs, rows)
    for number, row in enumerate(rows):
        _check_object(path_text(("instances", number)), row, inputs)
    return {name: [row[name] for row in rows] for name in inputs}


def _named(document: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The array of each input in `inputs`. The name of a single input may be left out."""
    values = document["inputs"]
    if len(inputs) == 1 and not _is_object(values):
        return dict.fromkeys(inputs, values)
    _check_object("inputs", values, inputs)
    return dict(values)


def _check_object(place: str, value: Any, inputs: Mapping[str, Any]) -> None:
    if not _is_object(value):
        raise invalid(f"{place}: expected an object of all inputs, got {value_text(value)}")
    # TensorFlow Serving ignores unknown names, but they may be typos.
    check_names(place, value, inputs)


def _array(name: str, value: Any, info: Any) -> np.ndarray:
    """The array of nested lists, each as long as the first one at its level."""
    place, kind = f"input {name}", tensors.numpy_type(info.dtype)
    type_name = tensors.NAMES.get(info.dtype, str(info.dtype))
    convert = _CONVERTERS.get(info.dtype)
    if kind is None or convert is None:
        raise RequestError("UNIMPLEMENTED", f"{place}: no JSON value becomes a {type_name}")
    shape: list[int] = []
    flat = [value]
    while flat and isinstance(flat[0], list):
        if len(shape) == _MOST_DIMENSIONS:
            raise invalid(f"{place}: lists are nested deeper than {_MOST_DIMENSIONS}")
        size = len(flat[0])
        for number, item in enumerate(flat):
            if not isinstance(item, list) or len(item) != size:
                raise _wrong(place, number, shape, f"a list of {size} values", item)
        shape.append(size)
        flat = [inner for item in flat for inner in item]
    converted: list[Any] = []
    for item in flat:
        try:
            converted.append(convert(item))
        except (ValueError, OverflowError) as error:
            raise _wrong(place, len(converted), shape, type_name, item) from error
    with np.errstate(over="ignore"):
        return np.array(converted, kind).reshape(shape)


def _wrong(place: str, number: int, shape: list[int], expected: str, value: Any) -> RequestError:
    """The error of a value, by its number in an array of this shape."""
    at = [int(i) for i in np.unravel_index(number, shape)]
    return invalid(f"{path_text((place, *at))}: expected {expected}, got {value_text(value)}")


def _float(value: Any) -> float:
    if type(value) not in (float, int):
        raise ValueError
    return float(value)


def _integer(dtype: int) -> Callable[[Any], int]:
    low, end = _INTEGERS[dtype]

    def convert(value: Any) -> int:
        if type(value) is not int or not low <= value < end:
            raise ValueError
        return value

    return convert


def _string(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not _is_bytes(value):
        raise ValueError
    text = value["b64"]
    # TensorFlow Serving also accepts base64 without padding.
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


_CONVERTERS: dict[int, Callable[[Any], Any]] = {
    1: _float,
    2: _float,
    7: _string,
    10: _boolean,
    **{dtype: _integer(dtype) for dtype in _INTEGERS},
}

# The Python types of each kind of feature, and what makes its values. A boolean is an integer.
_KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "bytes_list": ((str, dict), _string),
    "float_list": (float, float),
    "int64_list": (int, int),
}


def _example(place: str, value: Any) -> bytes:
    if not isinstance(value, dict):
        raise invalid(f"{place}: expected an object, got {value_text(value)}")
    example = messages.message("tensorflow.Example")()
    for name, content in value.items():
        items = content if isinstance(content, list) else [content]
        try:
            _fill(example.features.feature[name], items)
        except ValueError as error:
            raise invalid(
                f"{path_text((place, name))}: expected strings, floats or int64 integers, all of "
                f"one kind, got {value_text(content)}"
            ) from error
    result: bytes = example.SerializeToString()
    return result


def _fill(feature: Any, items: list[Any]) -> None:
    if not items:
        return
    for kind, (types, convert) in _KINDS.items():
        if all(isinstance(item, types) for item in items):
            getattr(feature, kind).value.extend(map(convert, items))
            return
    raise ValueError


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _is_object(value: Any) -> bool:
    """Whether a value is an object, and not a string of bytes."""
    return isinstance(value, dict) and not _is_bytes(value)
