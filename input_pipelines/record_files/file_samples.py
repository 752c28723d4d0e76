"""Samples of the content of files: a file that was replaced by another one of the same size.

A training that is started again goes on at a row number, which is wrong if a file has its rows in
another order now. The size of the file may be the same then, and its times say nothing: a machine
that fetches its data at each start gives new times to the same content. To read all bytes would
take as long as an epoch. So a few places of each file are read:

    samples_of({"a.tfrecord": 84_000_000})    # {"a.tfrecord": "9f86d081884c7d65"}

This is enough for a row number. If the rows come in another order, or the file was converted or
compressed again, nearly all of its bytes differ. A sample does not see bytes that were changed in
place between the samples, such as a label; then the rows still have the same numbers. For a digest
of all bytes, see `row_cache.digests`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from feature_specs.files import file_systems

# The blocks of a local file: the first, the last, and six more, evenly between them.
_BLOCKS, _BYTES = 8, 4096

# How many files are read at the same time, because remote file systems are slow.
_ASKED = 16


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
        found = threads.map(lambda path: _sample(names[path], sizes[path]), sizes)
        return dict(zip(sizes, found))


def _sample(path: str, size: int) -> str:
    whole = _BLOCKS * _BYTES
    digest = hashlib.sha256()
    if file_systems.scheme_of(path) is not None:
        import tensorflow as tf  # Local files do not need it.

        with tf.io.gfile.GFile(path, "rb") as remote:
            remote.seek(max(0, size - whole))
            digest.update(remote.read(whole))
        return digest.hexdigest()[:16]
    # Python reads only these bytes. TensorFlow's files read half a MiB at each place.
    places = [0]
    if size > whole:
        places = [(size - _BYTES) * i // (_BLOCKS - 1) for i in range(_BLOCKS)]
    with open(path, "rb", buffering=0) as file:
        for place in places:
            file.seek(place)
            digest.update(file.read(_BYTES if size > whole else whole))
    return digest.hexdigest()[:16]
