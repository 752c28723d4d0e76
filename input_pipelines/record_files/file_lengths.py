"""Looks for records that say more bytes than their file has, before TensorFlow reads the file.

TensorFlow's reader allocates what the length of a record says, if the checksum of the length is
right. A length beyond the memory ends the process with a signal, which nobody can catch. So the
lengths are followed from one to the next first. That takes about 0.2 s for a million records; no
payload is looked at.

A process does so once for each file, as long as its size and time stay. It does not for files that
are not local, and not for so many bytes that it takes minutes; see `check`. Raises DataError only.
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

# What TensorFlow may allocate in vain.
_HARMLESS = 2**30

# Bytes of files that a run looks at, about ten seconds. A byte of a GZIP file, which has to be
# unpacked, takes as long as many others.
_MOST = 8 * 2**30
_BYTES_OF_GZIP = 32

_CHUNK = 4 * 2**20

_length_at = struct.Struct("<Q").unpack_from


def check(paths: Sequence[str]) -> None:
    """Looks at some TFRecord files, if they are local and have at most 8 GiB together.

    Raises:
      DataError: a record says more bytes than its file has, and 1 GiB or more. Names the record.
    """
    sizes = [_size(path) * (_BYTES_OF_GZIP if file_bytes.is_gzip(path) else 1) for path in paths]
    if sum(sizes) > _MOST:
        return
    for path in paths:
        if says_too_much(path):
            raise DataError(f"{path}: {_first_bad(path)}")


def says_too_much(path: str) -> bool:
    """Whether TensorFlow would allocate 1 GiB or more for a record that is not there."""
    if file_systems.scheme_of(path) is not None:
        return False
    try:
        found = os.stat(path)
        return _look(path, found.st_size, found.st_mtime_ns)
    except OSError:
        return False  # Reading it will say why.


def _first_bad(path: str) -> str:
    bad = record_scanner.first_bad(path)
    return bad.sentence if bad is not None else "the file changes while it is read"


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
    """The bytes of a GZIP file from an offset on, which never goes back."""
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
    """Follows lengths, up to one whose checksum is wrong: there TensorFlow's reader stops, too.

    The checksums of small lengths are not looked at. If one is wrong, what follows is read as
    lengths that are none, and one of them seems to be right once in 2^32 times.
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
