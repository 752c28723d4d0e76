"""Finds records that are longer than their file before TensorFlow reads the file.

TensorFlow's reader allocates as many bytes as the length of a record says, if the checksum of the
length is correct. If they do not fit into memory, a signal ends the process, and no code can catch
it. So this module first follows the lengths from record to record. That takes about 0.2 s for a
million records, because it reads no payload.

A process checks each file once, as long as its size and modification time stay the same. Remote
files are not checked, and neither are files that are so large that the check would take minutes;
see `check`. The only error is DataError.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Callable, Sequence

from input_pipelines.errors import DataError
from input_pipelines.record_files import file_bytes, file_systems, record_scanner
from input_pipelines.record_files.crc32c import FRAME, HEADER, length_of
from input_pipelines.record_files.file_bytes import FileBytes

# TensorFlow may allocate this many bytes in vain.
_HARMLESS = 2**30

# The most bytes that are checked, which takes about ten seconds. A byte of a GZIP file has to be
# unpacked, and takes as long as 32 other bytes.
_MOST = 8 * 2**30
_BYTES_OF_GZIP = 32

_CHUNK = 4 * 2**20

_length_at = struct.Struct("<Q").unpack_from


def check(paths: Sequence[str]) -> None:
    """Checks TFRecord files that are local, if they have at most 8 GiB together.

    Raises:
      DataError: the length of a record is 1 GiB or more, and more than its file has. Names the
        record.
    """
    sizes = [_size(path) * (_BYTES_OF_GZIP if file_bytes.is_gzip(path) else 1) for path in paths]
    if sum(sizes) > _MOST:
        return
    for path in paths:
        if says_too_much(path):
            raise DataError(f"{path}: {_first_bad(path)}")


def says_too_much(path: str) -> bool:
    """Whether TensorFlow would allocate 1 GiB or more for a record that does not exist."""
    if file_systems.scheme_of(path) is not None:
        return False
    try:
        found = os.stat(path)
        return _look(path, found.st_size, found.st_mtime_ns)
    except OSError:
        return False  # Reading the file reports the error.


def _first_bad(path: str) -> str:
    bad = record_scanner.first_bad(path)
    return bad.sentence if bad is not None else "the file was changed while it was read"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


@functools.lru_cache(maxsize=2**16)
def _look(path: str, size: int, time: int) -> bool:
    del time  # Part of the key.
    if file_bytes.is_gzip(path):
        return _walk(_unpacked(FileBytes(path)))
    with open(path, "rb", buffering=0) as file:

        def at(offset: int) -> bytes:
            if offset >= size:
                return b""
            file.seek(offset)
            return file.read(_CHUNK)

        return _walk(at)


def _unpacked(data: FileBytes) -> Callable[[int], bytes]:
    """A function that returns bytes of a GZIP file from an offset on. Offsets must not decrease."""
    reached = 0

    def at(offset: int) -> bytes:
        nonlocal reached
        while reached < offset:
            step = min(_CHUNK, offset - reached)
            if len(data.at(reached, step)) < step:
                return b""
            reached += step
        return data.at(offset, _CHUNK)

    return at


def _walk(at: Callable[[int], bytes]) -> bool:
    """Follows lengths up to one whose checksum is wrong, where TensorFlow's reader also stops.

    The checksums of small lengths are not checked. If one is wrong, other bytes are then taken for
    lengths. The probability that such bytes have a correct checksum is 1 in 2^32.
    """
    offset = 0
    while True:
        piece = at(offset)
        place, last = 0, len(piece) - HEADER
        if last < 0:
            return False
        while place <= last:
            (length,) = _length_at(piece, place)
            if length >= _HARMLESS:
                if length_of(piece[place : place + HEADER]) is None:
                    return False
                if not at(offset + place + FRAME + length - 1):
                    return True
            place += FRAME + length
        offset += place
