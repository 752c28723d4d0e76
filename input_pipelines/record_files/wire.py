"""Protocol buffers' wire format, for messages whose classes the kit does not import.

    message([(2, 200)])     # b"\\x10\\xc8\\x01"

The modules that read or write many records at a time, `prepare.convert.encoding` and
`prepare.analyze.wire`, do with arrays what this module does with one value. Imports no TensorFlow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Union

Value = Union[bool, int, float, str, bytes]
Field = tuple[int, Value]

# Tags: the number of the field times 8 plus its wire type, 2 for "with a length".
FIELD_1, FIELD_2 = 0x0A, 0x12
# The tag of the list in a `tf.train.Feature`.
TAG_OF_DTYPE = {"string": 0x0A, "float32": 0x12, "int64": 0x1A}


def varint(number: int) -> bytes:
    """A number of 0 or more: 7 bits in each byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def framed(tag: int, content: bytes) -> bytes:
    """A field with a length: a string, bytes or a message."""
    return bytes([tag]) + varint(len(content)) + content


def message(fields: Iterable[Field]) -> bytes:
    """A message: (number of the field, value), in this order. Submessages are bytes.

    A float is a `double`, and an integer 0 or more.
    """
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, float):
        return bytes([number << 3 | 1]) + struct.pack("<d", value)
    if isinstance(value, int):  # Also a bool.
        return bytes([number << 3]) + varint(value)
    return framed(number << 3 | 2, value.encode() if isinstance(value, str) else value)
