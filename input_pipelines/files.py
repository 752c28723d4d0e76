"""Finds input files by pattern, in one order everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from input_pipelines.errors import DataError


def expand(patterns: Sequence[str], *, flag: str = "patterns") -> list[str]:
    """All files that match, sorted and each once.

    Args:
      patterns: paths or globs as `tf.io.gfile.glob` takes them.
      flag: what an error calls the patterns.

    Raises:
      DataError: a pattern matches nothing, or there is no pattern. Training on no file would
        otherwise end after 0 steps without an error.
    """
    if not patterns:
        raise DataError(f"{flag} is empty; name the TFRecord files to read")
    found: set[str] = set()
    for pattern in patterns:
        matches = [path for path in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(path)]
        if not matches:
            raise DataError(f"no file matches {pattern!r} of {flag}")
        found.update(matches)
    return sorted(found)
