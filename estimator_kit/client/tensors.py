"""Arrays as `TensorProto` messages, and back, without TensorFlow.

Works with any class of that message: the client's own, and TensorFlow's at the server.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np

STRING = 7

# TensorFlow's numbers of types (tensorflow/core/framework/types.proto), and the field that holds
# values of each, where they are not in tensor_content.
_TYPES: dict[int, tuple[Any, str]] = {
    1: (np.float32, "float_val"),
    2: (np.float64, "double_val"),
    3: (np.int32, "int_val"),
    4: (np.uint8, "int_val"),
    5: (np.int16, "int_val"),
    6: (np.int8, "int_val"),
    STRING: (np.object_, "string_val"),
    9: (np.int64, "int64_val"),
    10: (np.bool_, "bool_val"),
    17: (np.uint16, "int_val"),
    19: (np.float16, "half_val"),
    22: (np.uint32, "uint32_val"),
    23: (np.uint64, "uint64_val"),
}
_NUMBERS = {np.dtype(kind): number for number, (kind, _) in _TYPES.items()}

# The names that TensorFlow's messages have for them.
NAMES = {
    1: "float",
    2: "double",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    STRING: "string",
    9: "int64",
    10: "bool",
    17: "uint16",
    19: "half",
    22: "uint32",
    23: "uint64",
}


def numpy_type(number: int) -> Any:
    """The NumPy type of TensorFlow's number of a type; None where there is none."""
    kind = _TYPES.get(number)
    return None if kind is None else np.dtype(kind[0])


def as_array(value: Any) -> np.ndarray:
    """An array that can be a tensor: strings become an object array of bytes."""
    first = value
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    # NumPy's own type of bytes would lose zeros at their end.
    array = np.asarray(value, np.object_ if isinstance(first, (str, bytes)) else None)
    if array.dtype.kind in "USO":
        flat = [_as_bytes(item) for item in array.ravel().tolist()]
        result = np.empty(len(flat), np.object_)
        result[:] = flat
        return result.reshape(array.shape)
    if array.dtype not in _NUMBERS:
        raise ValueError(f"no tensor can hold {array.dtype}; expected numbers, booleans or strings")
    return array


def cast(array: np.ndarray, dtype: Any) -> np.ndarray:
    """An array of Python's numbers as the type that an input has; others as they are.

    A float input takes the nearest floats, of integers, too; an integer input takes integers that
    keep their value. Nothing is made of floats for an integer input, nor of strings: that is for
    the server to refuse.

    Raises:
      ValueError: a value has no place in the type.
    """
    expected = np.dtype(dtype)
    if array.dtype == expected or array.dtype == np.object_:
        return array
    if not array.size:  # An empty list has no type of its own.
        return array.astype(expected)
    if array.dtype.kind not in "iuf" or expected.kind not in "iuf":
        return array
    if array.dtype.kind == "f" and expected.kind != "f":
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        made = array.astype(expected)
    if expected.kind == "f":
        good = np.isfinite(made) | ~np.isfinite(array)
    else:
        limits = np.iinfo(expected)
        numbers = array.astype(np.object_)
        good = (numbers >= limits.min) & (numbers <= limits.max)
    if not np.all(good):
        wrong = array.ravel()[int(np.argmin(np.ravel(good)))]
        raise ValueError(f"got {wrong}, which {expected} cannot hold")
    return made


def _as_bytes(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes):
        return item
    raise ValueError(f"got {item!r} in an array of strings; expected str or bytes")


def fill(proto: Any, array: np.ndarray) -> None:
    """Writes an array, as `as_array` makes it, into a `TensorProto`."""
    proto.dtype = _NUMBERS[array.dtype]
    proto.tensor_shape.SetInParent()
    for size in array.shape:
        proto.tensor_shape.dim.add().size = size
    if proto.dtype == STRING:
        proto.string_val.extend(array.ravel().tolist())
    else:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()


def to_array(proto: Any, max_bytes: Optional[int] = None) -> np.ndarray:
    """The array of a `TensorProto`; strings as an object array of bytes.

    Args:
      proto: the message. Fewer values than its shape has are continued with the last one.
      max_bytes: the most that the array may take; a few bytes can claim to be a huge one.

    Raises:
      ValueError: it is of a type or a shape that it cannot be, or holds too few or many values.
    """
    if proto.dtype not in _TYPES:
        raise ValueError(f"type {proto.dtype} is none that a tensor of a request may have")
    if proto.tensor_shape.unknown_rank:
        raise ValueError("its shape is not known")
    shape = [dim.size for dim in proto.tensor_shape.dim]
    if len(shape) > 32 or min(shape, default=0) < 0:
        raise ValueError(f"the shape {shape[:40]} is none")
    kind, field = _TYPES[proto.dtype]
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
                f"tensor_content has {len(content)} bytes, which are not those of {shape} "
                f"{NAMES[proto.dtype]} values"
            )
        return np.frombuffer(content, dtype).reshape(shape)
    values = getattr(proto, field)
    if len(values) > count or (count and not len(values) and proto.dtype == STRING):
        raise ValueError(f"{field} has {len(values)} values, and the shape {shape} {count}")
    if proto.dtype == STRING:
        if max_bytes is not None and count:
            # The last one is continued, and each one of them is a copy to TensorFlow.
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
    if field in ("int_val", "half_val"):  # Fields that are wider than the type.
        stored = np.dtype(np.uint16) if proto.dtype == 19 else dtype
        wide = np.array(values, np.int64)
        read = wide.astype(stored)
        if not np.array_equal(read, wide):
            raise ValueError(f"{field} has values that are no {NAMES[proto.dtype]}")
        read = read.view(dtype)
    else:
        read = np.array(values, dtype)
    if len(read) == count:
        return read.reshape(shape)
    whole = np.zeros(count, dtype)  # TensorFlow's own: no value at all is zeros.
    whole[: len(read)] = read
    whole[len(read) :] = read[-1] if len(read) else 0
    return whole.reshape(shape)
