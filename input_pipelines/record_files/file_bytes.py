"""The bytes of a file: unpacked as far as a damaged file has them, their number, and samples.

`FileBytes` keeps all bytes before the place where a GZIP stream is broken. zlib returns nothing for
a piece that contains an error, so such a piece is decoded in smaller and smaller parts. Broken
content raises no error: `FileBytes.broken` says why the bytes end too early.

    total = sum(FRAME + len(record) for record in records)
    reached_end(path, total)                  # whether a reader read the whole file
    samples_of({"a.tfrecord": 84_000_000})    # {"a.tfrecord": "9f86d081884c7d65"}

TensorFlow's reader stops without an error in some truncated files: a file that is cut inside the
first bytes of a record, a GZIP file that is cut between two records, and an empty file.
`reached_end` looks only at a file's size and its last bytes, unless a GZIP file has more than one
member.

A training that is started again goes on at a row number, which is wrong if a file has its rows in
another order now, also with the same size; and its times say nothing, because a machine that
fetches its data at each start gives new times to the same content. To read all bytes would take as
long as an epoch. `samples_of` reads a few places of each file. If the rows come in another order,
or the file was converted or compressed again, nearly all of its bytes differ. A sample does not see
bytes that were changed in place between the samples, such as a label; then the rows still have the
same numbers. For a digest of all bytes, see `row_cache.folder`.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.files import file_systems

_GZIP_SUFFIXES = (".gz", ".gzip")
_GZIP_START = b"\x1f\x8b"

CHUNK = 4 * 2**20
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
      chunk: how many bytes of a plain file are read, and of a GZIP file unpacked, at a time.

    Attributes:
      packed: whether the file is GZIP.
      broken: why the GZIP stream has ended too early; None as long as it has not.
      unread: the stored bytes of the file after the break.
    """

    def __init__(self, path: str, chunk: int = CHUNK):
        self.packed = is_gzip(path)
        self._chunk = chunk
        self.broken: Optional[str] = None
        self.unread = 0
        self._path = path
        self._chunks = self.chunks()
        self._buffer = b""
        self._start = 0

    def at(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from an offset on, fewer at the end. Forgets all earlier bytes."""
        begin = offset - self._start
        if begin + count > len(self._buffer):
            parts = [self._buffer[begin:]]
            have = len(parts[0])
            self._start = offset
            begin = 0
            while have < count:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                parts.append(chunk)
                have += len(chunk)
            self._buffer = b"".join(parts)
        return self._buffer[begin : begin + count]

    def chunks(self) -> Generator[bytes, None, None]:
        """All bytes from the first on, piece by piece."""
        with tf.io.gfile.GFile(self._path, "rb") as file:
            if self.packed:
                yield from self._unpacked(file)
                return
            while True:
                data = file.read(self._chunk)
                if not data:
                    return
                yield data

    def close(self) -> None:
        """Closes the file, which else stays open until Python collects garbage."""
        self._chunks.close()

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
                    piece = decoder.decompress(data, self._chunk)
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
                    if not data and len(piece) < self._chunk:
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


# The size of the smallest GZIP file, in bytes.
_GZIP_LEAST = 20

# How many lengths are looked up at the same time, because remote file systems are slow.
_ASKED = 16


def stored_lengths(paths: Sequence[str]) -> np.ndarray:
    """The unpacked sizes that files declare: int64 [paths].

    A GZIP file declares its size modulo 2^32, in its last four bytes. -1 for a file that declares
    no size; `reached_end` then checks it.
    """
    with ThreadPoolExecutor(_ASKED) as threads:
        return np.array(list(threads.map(_stored_length, paths)), np.int64)


def reached_end(path: str, total: int) -> bool:
    """Whether a reader that found records of `total` bytes, with framing, read the whole file.

    The last four bytes of a GZIP file are its unpacked size. If a file has several members, they
    are the size of the last one only, so then the file is unpacked.
    """
    stored = size(path)
    if not is_gzip(path):
        return 0 < total == stored
    if total and stored >= _GZIP_LEAST and _last_number(path, stored) == total % 2**32:
        return True
    return stored > 0 and gzip_length(path) == total


def _stored_length(path: str) -> int:
    try:
        stored = size(path)
        if not is_gzip(path):
            return stored
        return _last_number(path, stored) if stored >= _GZIP_LEAST else -1
    except tf.errors.OpError:
        return -1  # Reading the file reports the error.


def _last_number(path: str, stored: int) -> int:
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(stored - 4)
        return int(struct.unpack("<I", file.read(4))[0])


# The blocks of a local file: the first, the last, and six more, evenly between them.
_BLOCKS, _BYTES = 8, 4096

# How many files are read at the same time, because remote file systems are slow.


def samples_of(sizes: Mapping[str, int]) -> dict[str, str]:
    """A sample of each file, as 16 hex digits of a SHA-256.

    At most 32 KiB of a file are read; smaller files are read whole. They are 8 blocks of a local
    file, and the end of a file in a store. There, TensorFlow's reader of `gs://` fetches up to
    64 MiB from each place, unless the file ends before. The last bytes of a GZIP file have the
    checksum of all its content.

    Args:
      sizes: the bytes of each file. All spellings of a path give the same sample.

    Raises:
      OSError, tf.errors.OpError: a file cannot be read.
    """
    names = file_systems.canonical_of(sizes)
    with ThreadPoolExecutor(_ASKED) as threads:
        samples = threads.map(lambda path: _sample(names[path], sizes[path]), sizes)
        return dict(zip(sizes, samples))


def _sample(path: str, size: int) -> str:
    sample_size = _BLOCKS * _BYTES
    digest = hashlib.sha256()
    if file_systems.scheme_of(path) is not None:
        import tensorflow as tf  # Local files do not need it.

        with tf.io.gfile.GFile(path, "rb") as remote:
            remote.seek(max(0, size - sample_size))
            digest.update(remote.read(sample_size))
        return digest.hexdigest()[:16]
    # Python reads only these bytes. TensorFlow's files read half a MiB at each place.
    places = [0]
    if size > sample_size:
        places = [(size - _BYTES) * i // (_BLOCKS - 1) for i in range(_BLOCKS)]
    with open(path, "rb", buffering=0) as file:
        for place in places:
            file.seek(place)
            digest.update(file.read(_BYTES if size > sample_size else sample_size))
    return digest.hexdigest()[:16]
