"""The framing of TFRecord files around serialized records; `crc32c` has its form.

Written here so that the processes of a conversion need not load TensorFlow, which takes seconds and
half a GB in each. The checksums are google-crc32c's, in C: some 700,000 records of 400 bytes a
second.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from input_pipelines.record_files.crc32c import FRAME, HEADER, masked

FOOTER = FRAME - HEADER

_CHECKSUM = struct.Struct("<I")


@functools.lru_cache(4096)
def _header(size: int) -> bytes:
    """What precedes a record of so many bytes; few sizes make most records."""
    length = struct.pack("<Q", size)
    return length + _CHECKSUM.pack(masked(length))


def framed(records: Iterable[bytes]) -> bytes:
    """Records one after the other as a TFRecord file has them."""
    parts: list[bytes] = []
    for record in records:
        parts += (_header(len(record)), record, _CHECKSUM.pack(masked(record)))
    return b"".join(parts)


def frames(records: Any) -> tuple[np.ndarray, np.ndarray]:
    """A binary array's records as a TFRecord file has them.

    Returns:
      uint8, all frames one after the other; and int64 [n + 1], where each one starts, and the end.
    """
    offsets = np.frombuffer(records.buffers()[1], np.int32)[records.offset :][: len(records) + 1]
    places = offsets.astype(np.int64) - int(offsets[0]) + FRAME * np.arange(len(offsets))
    return np.frombuffer(framed(records.to_pylist()), np.uint8), places
