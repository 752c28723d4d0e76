"""Finds input files by pattern. Every process lists them in the same order."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from input_pipelines.errors import DataError
from input_pipelines.reading import days as windows
from input_pipelines.record_files import file_systems

Glob = Callable[[str], Sequence[str]]

# Patterns ignore names with these first characters: hidden files, and files that describe a folder.
_HIDDEN = (".", "_")


def _glob(pattern: str) -> list[str]:
    import tensorflow as tf

    return [path for path in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(path)]


def expand(
    patterns: Sequence[str],
    *,
    flag: str = "patterns",
    days: Sequence[str] = (),
    glob: Glob = _glob,
) -> list[str]:
    """Lists all files that match, sorted and without duplicates.

    Two spellings of a local path (`a`, `./a`) are one file. A name that begins with a dot or an
    underscore matches only if the last part of the pattern does too. Files that are still being
    written have such names.

    Args:
      patterns: paths or globs as `tf.io.gfile.glob` takes them.
      flag: the name of the patterns in error messages.
      days: if given, each pattern must have a part `dt=*`, and each day replaces its star
        (`days.of_days`).
      glob: returns the files that match one pattern. The default imports TensorFlow and uses it.

    Raises:
      DataError: a pattern or one of its days matches nothing, or `patterns` is empty. Without this
        error, training on zero files would end after 0 steps and look successful.
      MissingPackageError: TensorFlow cannot read such paths.
    """
    if not patterns:
        raise DataError(f"{flag} is empty. Name the TFRecord files to read")
    found: set[str] = set()
    for pattern in patterns:
        file_systems.check(pattern, flag=flag)
        if days:
            found.update(_of_days(pattern, tuple(days), flag, glob))
            continue
        matches = _matches(pattern, glob)
        if not matches:
            raise DataError(f"no file matches {pattern!r} of {flag}")
        found.update(matches)
    return sorted(found)


def _of_days(pattern: str, days: tuple[str, ...], flag: str, glob: Glob) -> list[str]:
    by_day = dict(zip(days, windows.of_days(pattern, days)))
    matches = {day: _matches(of_day, glob) for day, of_day in by_day.items()}
    missing = [day for day, found in matches.items() if not found]
    if missing:
        some = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        raise DataError(
            f"{flag}: {len(missing)} of {len(days)} days are missing ({some}): no file matches "
            f"{by_day[missing[0]]!r}. Write them, or choose other days"
        )
    return [path for found in matches.values() for path in found]


def _matches(pattern: str, glob: Glob) -> list[str]:
    hidden = os.path.basename(pattern).startswith(_HIDDEN)
    return [
        path if file_systems.scheme_of(path) else os.path.normpath(path)
        for path in glob(pattern)
        if hidden or not os.path.basename(path).startswith(_HIDDEN)
    ]
