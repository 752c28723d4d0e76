"""The bytes of a file as they were before compression, in order, as far as there are any.

A GZIP stream that breaks keeps all that came before the break, to the byte: zlib gives nothing of
a piece that has an error in it, so such a piece is taken apart. Nothing is raised for broken
content; `FileBytes.broken` says why the bytes end before they should.
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
    """Whether a file is GZIP, which its name says."""
    return path.endswith(_GZIP_SUFFIXES)


def size(path: str) -> int:
    """Bytes of a file as it is stored."""
    return int(tf.io.gfile.stat(path).length)


def starts_as_gzip(path: str) -> bool:
    """Whether the first bytes are those of GZIP, or fewer of the same."""
    with tf.io.gfile.GFile(path, "rb") as file:
        return _GZIP_START.startswith(file.read(2))


def gzip_length(path: str) -> Optional[int]:
    """Bytes that a whole GZIP file unpacks to, by unpacking it; None for one that is broken."""
    data = FileBytes(path)
    total = sum(len(chunk) for chunk in data.chunks())
    return None if data.broken else total


class FileBytes:
    """The unpacked bytes of one file.

    Args:
      path: the file; GZIP when its name ends in .gz or .gzip.

    Attributes:
      packed: whether the file is GZIP.
      broken: once a GZIP stream has broken off, why; otherwise None.
      unread: bytes of the file, as it is stored, behind that break.
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
        """Up to `count` bytes from an offset on; fewer at the end. Earlier ones are forgotten."""
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
        """All of them, from the first on, piece by piece."""
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
        inside = True  # Of a member; a file may be several, one after the other.
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
                        break  # All that there is of this chunk.
        if inside:
            self.broken = "the GZIP stream is cut off here"


def _before_the_error(decoder: Any, data: bytes) -> Iterator[bytes]:
    """What a decoder makes of data before the place at which they break it."""
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
    # Within one byte, which may end several symbols.
    while True:
        try:
            piece = decoder.decompress(data, 1)
        except zlib.error:
            return
        if not piece:
            return
        yield piece
        data = decoder.unconsumed_tail
