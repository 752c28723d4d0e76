"""What decides the content of a cached shard, as the name that it is found by.

Everything that has a part in a transformed row is hashed with SHA-256: the bytes of the source file
(not its path or time), what of it is read, the spec with its vocabulary files, the code of the
packages that read and transform, and TensorFlow's version. Nothing else is: the same rows at
another path are found.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
from collections.abc import Iterable
from typing import Optional

import tensorflow as tf

import feature_specs
import input_pipelines
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files import file_bytes
from input_pipelines.record_files.sharding import Shard


def of_rows(spec: FeatureSpec) -> str:
    """Of what turns records into rows, in hex; about a millisecond for the code, once."""
    parts = [spec.fingerprint(), _of_code(), tf.version.VERSION]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def of_shard(
    rows: str, path: str, content: str, shard: Shard, left_out: Optional[Iterable[int]]
) -> str:
    """Of the rows of one file, in hex.

    Args:
      rows: of `of_rows`.
      path: of the file; what its ending says of it decides how it is read.
      content: SHA-256 of its bytes.
      shard: which of its records are read.
      left_out: the records that are not read of a damaged file; None for one that is whole.
    """
    skipped = None if left_out is None else sorted(left_out)
    gzip = file_bytes.is_gzip(path)
    text = json.dumps([rows, content, gzip, shard.count, shard.index, skipped])
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _of_code() -> str:
    digest = hashlib.sha256()
    for package in (feature_specs, input_pipelines):
        folder = pathlib.Path(package.__file__ or "").parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
