"""Frames serialized records as TFRecord files store them; `crc32c` describes the format.

With this module the processes of a conversion do not load TensorFlow, which would take seconds and
half a GB in each process. google-crc32c computes the checksums in C: about 700,000 records of 400
bytes a second.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.record_files.crc32c import FRAME, HEADER, LARGEST_RECORD, masked

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
