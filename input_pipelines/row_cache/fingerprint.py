"""Computes the name of a cached shard from everything that decides its content.

The name is a SHA-256 hash of everything that influences a transformed row: the bytes of the source
file (not its path or time), which of its records are read, the spec with its vocabulary files, the
code of the packages that read and transform, and TensorFlow's version. Nothing else is hashed, so
the same rows are found when their file is moved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Optional

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines import own_code
from input_pipelines.record_files import file_bytes
from input_pipelines.record_files.sharding import Shard


def of_rows(spec: FeatureSpec) -> str:
    """A hash of what turns records into rows, in hex. Hashing the code takes about 1 ms, once."""
    # Rows contain the items that some metrics need, and `metrics` changes nothing else.
    seen = json.dumps([objective.reads_seen for objective in spec.objectives.values()])
    parts = [spec.fingerprint(), seen, own_code.of_reading(), tf.version.VERSION]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def of_shard(
    rows: str, path: str, content: str, shard: Shard, left_out: Optional[Iterable[int]]
) -> str:
    """A hash of the rows of one file, in hex.

    Args:
      rows: the result of `of_rows`.
      path: the path of the file. Only its suffix is used, which decides how the file is read.
      content: the SHA-256 digest of its bytes.
      shard: which of its records are read.
      left_out: the records of a damaged file that are not read; None for an intact file.
    """
    skipped = None if left_out is None else sorted(left_out)
    gzip = file_bytes.is_gzip(path)
    text = json.dumps([rows, content, gzip, shard.count, shard.index, skipped])
    return hashlib.sha256(text.encode()).hexdigest()
