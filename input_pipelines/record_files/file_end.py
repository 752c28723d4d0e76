"""Whether a reading of a TFRecord file came to its end, by the bytes that it found.

    total = sum(FRAME + len(record) for record in records)
    file_end.reached_end(path, total)

TensorFlow's reader takes some files for read when they are not: one that is cut inside the first
bytes of a record, a GZIP file that is cut between two records, a file without a byte. Nothing is
read here beyond a file's size and its last bytes, but where a GZIP file is not of one member.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from input_pipelines.record_files import file_bytes

# Bytes of the smallest GZIP file.
_GZIP_LEAST = 20

# Files that are asked for their length at the same time; remote ones take their time.
_ASKED = 16


def stored_lengths(paths: Sequence[str]) -> np.ndarray:
    """What files say that their bytes are, unpacked: int64 [paths].

    Of a GZIP file it is modulo 2^32, its last four bytes. -1 for a file that says nothing: the look
    at its end is then one of `reached_end`.
    """
    with ThreadPoolExecutor(_ASKED) as threads:
        return np.array(list(threads.map(_stored_length, paths)), np.int64)


def reached_end(path: str, total: int) -> bool:
    """Whether a reader that found records of `total` bytes, framing included, read a whole file.

    A GZIP file says in its last four bytes how much it unpacks to. That is only so for a file of
    one member; of another one all members are unpacked.
    """
    size = file_bytes.size(path)
    if not file_bytes.is_gzip(path):
        return 0 < total == size
    if total and size >= _GZIP_LEAST and _last_number(path, size) == total % 2**32:
        return True
    return size > 0 and file_bytes.gzip_length(path) == total


def _stored_length(path: str) -> int:
    try:
        size = file_bytes.size(path)
        if not file_bytes.is_gzip(path):
            return size
        return _last_number(path, size) if size >= _GZIP_LEAST else -1
    except tf.errors.OpError:
        return -1  # Reading it will say why.


def _last_number(path: str, size: int) -> int:
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(size - 4)
        return int(struct.unpack("<I", file.read(4))[0])
