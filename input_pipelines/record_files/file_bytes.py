"""Reads the uncompressed bytes of a file in order, as far as a damaged file has them.

If a GZIP stream is broken, all bytes before the break are kept. zlib returns nothing for a piece
that contains an error, so such a piece is decoded in smaller and smaller parts. Broken content
raises no error: `FileBytes.broken` says why the bytes end too early.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Optional

import tensorflow as tf

_GZIP_SUFFIXES = (".gz", ".gzip")
_GZIP_START = b"\x1f\x8b"

_CHUNK = 4 * 2**20
_GZIP_CHUNK = 2**18


def is_gzip(path: str) -> bool:
    """Whether a file is GZIP. Only its name decides."""
    return path.endswith(_GZIP_SUFFIXES)


def size(path: str) -> int:
    """The size of a file in bytes, as it is stored."""
    return int(tf.io.gfile.stat(path).length)


def starts_as_gzip(path: str) -> bool:
    """Whether a file starts with the two bytes of GZIP, or is shorter and starts with a part."""
    with tf.io.gfile.GFile(path, "rb") as file:
        return _GZIP_START.startswith(file.read(2))


def gzip_length(path: str) -> Optional[int]:
    """The unpacked size of a GZIP file, by unpacking it; None if the file is broken."""
    data = FileBytes(path)
    total = sum(len(chunk) for chunk in data.chunks())
    return None if data.broken else total


class FileBytes:
    """The unpacked bytes of one file.

    Args:
      path: the file; GZIP if its name ends in .gz or .gzip.

    Attributes:
      packed: whether the file is GZIP.
      broken: why the GZIP stream has ended too early; None as long as it has not.
      unread: the stored bytes of the file after the break.
    """

    def __init__(self, path: str):
        self.packed = is_gzip(path)
        self.broken: Optional[str] = None
        self.unread = 0
        self._path = path
        self._chunks = self.chunks()
        self._held = b""
        self._start = 0

    def at(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from an offset on, fewer at the end. Forgets all earlier bytes."""
        begin = offset - self._start
        if begin + count > len(self._held):
            parts = [self._held[begin:]]
            have = len(parts[0])
            self._start = offset
            begin = 0
            while have < count:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                parts.append(chunk)
                have += len(chunk)
            self._held = b"".join(parts)
        return self._held[begin : begin + count]

    def chunks(self) -> Iterator[bytes]:
        """All bytes from the first on, piece by piece."""
        with tf.io.gfile.GFile(self._path, "rb") as file:
            if self.packed:
                yield from self._unpacked(file)
                return
            while True:
                data = file.read(_CHUNK)
                if not data:
                    return
                yield data

    def _unpacked(self, file: Any) -> Iterator[bytes]:
        decoder = zlib.decompressobj(wbits=31)
        inside = True  # Inside a GZIP member; a file may have several members.
        while True:
            data = file.read(_GZIP_CHUNK)
            if not data:
                break
            inside = True
            while data or not decoder.eof:
                before = decoder.copy()
                try:
                    piece = decoder.decompress(data, _CHUNK)
                except zlib.error as error:
                    yield from _before_the_error(before, data)
                    self.unread = size(self._path) - file.tell() + len(data)
                    self.broken = f"the GZIP stream is broken here: {error}"
                    return
                if piece:
                    yield piece
                if decoder.eof:
                    data = decoder.unused_data
                    decoder = zlib.decompressobj(wbits=31)
                    inside = bool(data)
                    if not data:
                        break
                else:
                    data = decoder.unconsumed_tail
                    if not data and len(piece) < _CHUNK:
                        break  # This chunk has no more bytes.
        if inside:
            self.broken = "the GZIP stream is cut off here"


def _before_the_error(decoder: Any, data: bytes) -> Iterator[bytes]:
    """The bytes that a decoder returns before the place where the data is broken."""
    for step in (1024, 1):
        for i in range(0, len(data), step):
            before = decoder.copy()
            part = data[i : i + step]
            try:
                piece = decoder.decompress(part)
            except zlib.error:
                break
            yield piece
        decoder, data = before, part
    # Decode within one byte, because it may end several symbols.
    while True:
        try:
            piece = decoder.decompress(data, 1)
        except zlib.error:
            return
        if not piece:
            return
        yield piece
        data = decoder.unconsumed_tail
