"""Finds input files by pattern, in one order everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from input_pipelines.errors import DataError


def _glob(pattern: str) -> list[str]:
    import tensorflow as tf

    return [path for path in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(path)]


def expand(
    patterns: Sequence[str],
    *,
    flag: str = "patterns",
    glob: Callable[[str], Sequence[str]] = _glob,
) -> list[str]:
    """All files that match, sorted and each once.

    Args:
      patterns: paths or globs as `tf.io.gfile.glob` takes them.
      flag: what an error calls the patterns.
      glob: the files that match one of them; by default TensorFlow looks, which is imported then.

    Raises:
      DataError: a pattern matches nothing, or there is no pattern. Training on no file would
        otherwise end after 0 steps without an error.
    """
    if not patterns:
        raise DataError(f"{flag} is empty; name the TFRecord files to read")
    found: set[str] = set()
    for pattern in patterns:
        matches = glob(pattern)
        if not matches:
            raise DataError(f"no file matches {pattern!r} of {flag}")
        found.update(matches)
    return sorted(found)
