"""Tensors without TensorFlow: arrays as `TensorProto` messages and back, forms of signatures.

Works with any class of that message: the client's class, and TensorFlow's class on the server.
`Metadata` has the version and the signatures of a model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

STRING = 7

# TensorFlow's numbers of types (tensorflow/core/framework/types.proto). For each type, its name in
# TensorFlow's messages, and the field of the values that are not in tensor_content.
_TYPES: dict[int, tuple[Any, str, str]] = {
    1: (np.float32, "float", "float_val"),
    2: (np.float64, "double", "double_val"),
    3: (np.int32, "int32", "int_val"),
    4: (np.uint8, "uint8", "int_val"),
    5: (np.int16, "int16", "int_val"),
    6: (np.int8, "int8", "int_val"),
    STRING: (np.object_, "string", "string_val"),
    9: (np.int64, "int64", "int64_val"),
    10: (np.bool_, "bool", "bool_val"),
    17: (np.uint16, "uint16", "int_val"),
    19: (np.float16, "half", "half_val"),
    22: (np.uint32, "uint32", "uint32_val"),
    23: (np.uint64, "uint64", "uint64_val"),
}
_NUMBERS = {np.dtype(kind): number for number, (kind, _, _) in _TYPES.items()}
NAMES = {number: name for number, (_, name, _) in _TYPES.items()}


def numpy_type(number: int) -> Any:
    """The NumPy type for TensorFlow's number of a type, or None if NumPy has no such type."""
    kind = _TYPES.get(number)
    return None if kind is None else np.dtype(kind[0])


def as_array(value: Any) -> np.ndarray:
    """An array that can become a tensor. Strings become an object array of bytes."""
    first = value
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    # NumPy's bytes type would drop zeros at the end.
    array = np.asarray(value, np.object_ if isinstance(first, (str, bytes)) else None)
    if array.dtype.kind in "USO":
        flat = [_as_bytes(item) for item in array.ravel().tolist()]
        result = np.empty(len(flat), np.object_)
        result[:] = flat
        return result.reshape(array.shape)
    if array.dtype not in _NUMBERS:
        raise ValueError(f"expected numbers, booleans or strings, got {array.dtype}")
    return array


def cast(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Casts an array of Python's numbers to the type of an input; returns other arrays unchanged.

    A float input takes floats and integers, rounded to the nearest float. An integer input takes
    integers that fit. Floats for an integer input, and strings, are returned unchanged: the server
    refuses them.

    Raises:
      ValueError: the type cannot hold a value.
    """
    expected = np.dtype(dtype)
    if array.dtype == expected or array.dtype == np.object_:
        return array
    if not array.size:  # An empty list has no type.
        return array.astype(expected)
    if array.dtype.kind not in "iuf" or expected.kind not in "iuf":
        return array
    if array.dtype.kind == "f" and expected.kind != "f":
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        converted = array.astype(expected)
    if expected.kind == "f":
        good = np.isfinite(converted) | ~np.isfinite(array)
    else:
        limits = np.iinfo(expected)
        numbers = array.astype(np.object_)
        good = (numbers >= limits.min) & (numbers <= limits.max)
    if not np.all(good):
        wrong = array.ravel()[int(np.argmin(np.ravel(good)))]
        raise ValueError(f"expected a value that fits into {expected}, got {wrong}")
    return converted


def _as_bytes(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes):
        return item
    raise ValueError(f"an array of strings: expected str or bytes, got {item!r}")


def fill(proto: Any, array: np.ndarray) -> None:
    """Writes an array of `as_array` into a `TensorProto`, numbers into `tensor_content`."""
    _fill_form(proto, array)
    if proto.dtype == STRING:
        proto.string_val.extend(array.ravel().tolist())
    else:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()


def fill_fields(proto: Any, array: np.ndarray) -> None:
    """Writes an array into a `TensorProto` as TensorFlow Serving answers: into the typed fields.

    Its clients read `float_val`, `int64_val` and so on, and often nothing else.

    Raises:
      ValueError: `TensorProto` has no typed field for arrays of this type.
    """
    if array.dtype not in _NUMBERS:
        raise ValueError(f"expected numbers, booleans or strings, got {array.dtype}")
    _fill_form(proto, array)
    field = _TYPES[proto.dtype][2]
    if array.dtype == np.float16:
        array = array.view(np.uint16)  # As TensorFlow does: the bits of each number.
    if field in ("float_val", "double_val"):
        # The encoding of a packed field is the bytes of the numbers, so no number is copied alone.
        number = type(proto).DESCRIPTOR.fields_by_name[field].number
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        proto.MergeFromString(bytes([number << 3 | 2]) + _varint(len(data)) + data)
    else:
        getattr(proto, field).extend(array.ravel().tolist())


def _fill_form(proto: Any, array: np.ndarray) -> None:
    proto.dtype = _NUMBERS[array.dtype]
    proto.tensor_shape.SetInParent()
    for size in array.shape:
        proto.tensor_shape.dim.add().size = size


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def to_array(proto: Any, max_bytes: Optional[int] = None) -> np.ndarray:
    """The array of a `TensorProto`; strings become an object array of bytes.

    Args:
      proto: the message. If it has fewer values than its shape, the last value is repeated.
      max_bytes: the most bytes of the array. A small message can describe a very large array.

    Raises:
      ValueError: the type or the shape is not valid, or the number of values does not fit.
    """
    if proto.dtype not in _TYPES:
        raise ValueError(f"a tensor of a request cannot have the type {proto.dtype}")
    if proto.tensor_shape.unknown_rank:
        raise ValueError("its shape is unknown")
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if len(shape) > 32 or min(shape, default=0) < 0:
        raise ValueError(f"the shape {shape[:40]} is not valid")
    kind, _, field = _TYPES[proto.dtype]
    dtype = np.dtype(kind)
    count = math.prod(shape)
    if max_bytes is not None and count * dtype.itemsize > max_bytes:
        raise ValueError(
            f"the shape {shape} takes {count * dtype.itemsize:,} bytes, and at most {max_bytes:,} "
            "are allowed"
        )
    content = proto.tensor_content
    if content:
        if proto.dtype == STRING or len(content) != count * dtype.itemsize:
            raise ValueError(
                f"tensor_content has {len(content)} bytes, which do not fit the shape {shape} and "
                f"the type {NAMES[proto.dtype]}"
            )
        return np.frombuffer(content, dtype).reshape(shape)
    values = getattr(proto, field)
    if len(values) > count or (count and not len(values) and proto.dtype == STRING):
        raise ValueError(f"{field} has {len(values)} values, but the shape {shape} needs {count}")
    if proto.dtype == STRING:
        if max_bytes is not None and count:
            # The last string is repeated, and TensorFlow copies each one.
            size = 8 * count + sum(map(len, values)) + (count - len(values)) * len(values[-1])
            if size > max_bytes:
                raise ValueError(
                    f"the strings of the shape {shape} take {size:,} bytes, and at most "
                    f"{max_bytes:,} are allowed"
                )
        strings = np.empty(count, np.object_)
        strings[: len(values)] = list(values)
        strings[len(values) :] = values[-1] if count else b""
        return strings.reshape(shape)
    if field in ("int_val", "half_val"):  # The fields are wider than the type.
        stored = np.dtype(np.uint16) if proto.dtype == 19 else dtype
        wide = np.array(values, np.int64)
        read = wide.astype(stored)
        if not np.array_equal(read, wide):
            raise ValueError(f"{field} has values that do not fit into {NAMES[proto.dtype]}")
        read = read.view(dtype)
    else:
        read = np.array(values, dtype)
    if len(read) == count:
        return read.reshape(shape)
    array = np.zeros(count, dtype)  # As in TensorFlow, a message without values has zeros.
    array[: len(read)] = read
    array[len(read) :] = read[-1] if len(read) else 0
    return array.reshape(shape)


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
        numbers = {name: number for number, name in NAMES.items()}
        return numpy_type(numbers.get(self.dtype, 0))


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


def signature_of_message(signature: Any) -> Signature:
    """The signature of a `SignatureDef`, which may be of any class."""
    return Signature(
        {name: _tensor_form(info) for name, info in sorted(signature.inputs.items())},
        {name: _tensor_form(info) for name, info in sorted(signature.outputs.items())},
        signature.method_name,
    )


def _tensor_form(info: Any) -> TensorForm:
    shape = info.tensor_shape
    sizes = tuple(None if dim.size < 0 else dim.size for dim in shape.dim)
    name = NAMES.get(info.dtype, str(info.dtype))
    return TensorForm(name, None if shape.unknown_rank else sizes)


def signature_of_json(signature: Mapping[str, Any]) -> Signature:
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
