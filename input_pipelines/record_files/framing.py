"""Frames records as TFRecord files store them, checks their checksums, and writes small messages.

A record is stored as

    length    uint64, little-endian
    checksum  uint32, the masked CRC-32C (Castagnoli) of the eight bytes of the length
    payload   `length` bytes
    checksum  uint32, the masked CRC-32C of the payload

google-crc32c computes the CRC in C: about 700,000 records of 400 bytes a second. The processes of a
conversion do not load TensorFlow, which would take seconds and half a GB in each of them. The kit
also reads damaged files with these functions; TensorFlow reads and checks intact files.

In protocol buffers' wire format, messages whose classes the kit does not import:

    message([(2, 200)])     # b"\x10\xc8\x01"

The modules that read or write many records at a time, `prepare.convert.encoding` and
`prepare.analyze.wire`, do with arrays what this module does with one value.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from typing import Any, Optional, Union

import google_crc32c
import numpy as np

from input_pipelines.errors import DataError

# The bytes of a record before its payload, and the bytes before and after it together.
HEADER = 12
FRAME = 16

# Records in a block: large enough to make tf.data's per-element cost vanish, small enough to
# shuffle and to keep in memory (a few MB).
BLOCK = 1024

# The most bytes of a record's payload, and of a line of a table. A reader holds a whole record in
# memory, and a few hundred bytes of GZIP can stand for any number of equal bytes.
LARGEST_RECORD = 64 * 2**20

_MASK_DELTA = 0xA282EAD8


def masked(data: bytes) -> int:
    """The checksum as it is stored: rotated by 15 bits, plus a constant (TensorFlow's crc32c.h)."""
    crc = google_crc32c.value(data)
    result: int = ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
    return result


def length_of(header: bytes) -> Optional[int]:
    """The length in the first twelve bytes of a record, or None if its checksum is wrong."""
    if len(header) < HEADER:
        return None
    length, checksum = struct.unpack_from("<QI", header)
    return length if masked(header[:8]) == checksum else None


def payload_is_right(payload: bytes, checksum: bytes) -> bool:
    result: bool = masked(payload) == struct.unpack("<I", checksum)[0]
    return result


def first_header(data: bytes) -> Optional[int]:
    """Where a length with its correct checksum (twelve bytes) is found first; None if nowhere.

    Other bytes look like one at about one in 2^32 positions.
    """
    count = len(data) - HEADER + 1
    if count <= 0:
        return None
    values = np.frombuffer(data, np.uint8)
    # CRCs of inputs with the same length differ by a sum (exclusive or) of one term for each byte.
    crc = np.full(count, _OF_ZEROS, np.uint32)
    stored = np.zeros(count, np.uint32)
    for i in range(8):
        crc ^= _TERMS[i][values[i : i + count]]
    for i in range(4):
        stored |= values[8 + i : 8 + i + count].astype(np.uint32) << np.uint32(8 * i)
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    positions = np.flatnonzero(rotated + np.uint32(_MASK_DELTA) == stored)
    return int(positions[0]) if positions.size else None


def _terms() -> np.ndarray:
    """uint32 [8, 256]: what each value of each of eight bytes adds to the CRC of eight zeros."""
    terms = np.zeros((8, 256), np.uint32)
    for i in range(8):
        for value in range(256):
            data = bytearray(8)
            data[i] = value
            terms[i, value] = google_crc32c.value(bytes(data)) ^ _OF_ZEROS
    return terms


_OF_ZEROS = google_crc32c.value(bytes(8))
_TERMS = _terms()


FOOTER = FRAME - HEADER

_CHECKSUM = struct.Struct("<I")


@functools.lru_cache(4096)
def _header(size: int) -> bytes:
    """The bytes before a payload of `size` bytes. Cached, because most records have a few sizes.

    Raises:
      DataError: it is larger than `LARGEST_RECORD`. Then nobody could read it.
    """
    if size > LARGEST_RECORD:
        raise DataError(
            f"a record would have {size:,} bytes, expected at most {LARGEST_RECORD:,}. Leave out "
            "its largest fields, or keep fewer steps of its lists."
        )
    length = struct.pack("<Q", size)
    return length + _CHECKSUM.pack(masked(length))


def framed(records: Iterable[bytes]) -> bytes:
    """Frames records and joins them, as in a TFRecord file."""
    parts: list[bytes] = []
    for record in records:
        parts += (_header(len(record)), record, _CHECKSUM.pack(masked(record)))
    return b"".join(parts)


def frames(records: Any) -> tuple[np.ndarray, np.ndarray]:
    """Frames the records of a binary array.

    Returns:
      uint8: all frames, joined; and int64 [n + 1]: where each frame starts, and the end.
    """
    offsets = np.frombuffer(records.buffers()[1], np.int32)[records.offset :][: len(records) + 1]
    places = offsets.astype(np.int64) - int(offsets[0]) + FRAME * np.arange(len(offsets))
    return np.frombuffer(framed(records.to_pylist()), np.uint8), places


Value = Union[bool, int, float, str, bytes]
Field = tuple[int, Value]

# Tags: the number of the field times 8 plus its wire type, 2 for "with a length".
FIELD_1, FIELD_2 = 0x0A, 0x12
# The tag of the list in a `tf.train.Feature`.
TAG_OF_DTYPE = {"string": 0x0A, "float32": 0x12, "int64": 0x1A}


def varint(number: int) -> bytes:
    """A number of 0 or more: 7 bits in each byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def length_delimited(tag: int, content: bytes) -> bytes:
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
    return length_delimited(number << 3 | 2, value.encode() if isinstance(value, str) else value)
