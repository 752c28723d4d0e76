"""Checks whether a reader reached the end of a TFRecord file, by the bytes that it found.

    total = sum(FRAME + len(record) for record in records)
    file_end.reached_end(path, total)

TensorFlow's reader stops without an error in some truncated files: a file that is cut inside the
first bytes of a record, a GZIP file that is cut between two records, and an empty file. This module
looks only at a file's size and its last bytes, unless a GZIP file has more than one member.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from input_pipelines.record_files import file_bytes

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
        return -1  # Reading the file reports the error.


def _last_number(path: str, size: int) -> int:
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(size - 4)
        return int(struct.unpack("<I", file.read(4))[0])
