"""Finds input files by pattern. Every process lists them in the same order.

    expand(["data/dt=*/*.tfrecord"])     # ["data/dt=2026-01-01/a.tfrecord", ...]
    parse_days("2026-01-05..2026-01-07")    # 2026-01-05, 2026-01-06, 2026-01-07
    parse_days("3d..2026-01-07")            # the same: three days that end with the last one
    of_days("data/dt=*/*.tfrecord", ("2026-01-07",))     # data/dt=2026-01-07/*.tfrecord

`*`, `?` and `[...]` match within one part of a path, and never a name with a dot or an underscore
at its start: files and folders that are still being written have such names. A part of a pattern
that begins with one of these characters matches such names. If brackets are in the name of a file
or folder that exists, they are not wildcards: `part[1].csv` is the file of this name. A day is a
folder `dt=2026-01-01`. This module is the only one that expands patterns of input files. It never
opens a file.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Sequence
from glob import glob as local_glob
from typing import Optional

from feature_specs.files import copies, file_systems
from input_pipelines.errors import DataError

# The part of a pattern that is replaced by a day.
_PLACE = re.compile(r"(?<![^/])dt=(\*|YYYY-MM-DD)(?![^/])")
# The most days in a window. A larger number is almost certainly a typing error.
_MOST = 3660

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EXPECTED = (
    "a day (2026-01-07), a first and a last day (2026-01-01..2026-01-07) or a number of days and "
    "the last one (7d..2026-01-07)"
)


def parse_days(text: str) -> tuple[str, ...]:
    """The days of a window, first to last, both included.

    Raises:
      ValueError: the text is not a window; the message says what was expected.
    """
    first, dots, last = text.strip().partition("..")
    end = _day(text, last if dots else first)
    count = re.fullmatch(r"(\d+)d", first) if dots else None
    if count:
        days = int(count[1])
        if not 1 <= days <= end.toordinal():
            raise ValueError(f"got {text!r}: {days} days, expected 1 or more")
    else:
        days = (end - _day(text, first)).days + 1
        if days < 1:
            raise ValueError(f"got {text!r}: the last day is before the first")
    if days > _MOST:
        raise ValueError(f"got {text!r}: {days} days, expected {_MOST} at most")
    start = end.toordinal() - days + 1
    return tuple(datetime.date.fromordinal(start + i).isoformat() for i in range(days))


def _day(text: str, day: str) -> datetime.date:
    if not _DAY.fullmatch(day):
        raise ValueError(f"got {text!r}, expected {_EXPECTED}")
    try:
        return datetime.date.fromisoformat(day)
    except ValueError as error:
        raise ValueError(f"got {text!r}: the day {day} does not exist") from error


def of_days(pattern: str, days: tuple[str, ...]) -> list[str]:
    """One pattern for each day: the part `dt=*` (or a literal `dt=YYYY-MM-DD`) becomes `dt=<day>`.

    Raises:
      ValueError: the pattern does not have exactly one such part.
    """
    places = _PLACE.findall(pattern)
    if len(places) != 1:
        raise ValueError(
            f"{pattern!r} has {len(places)} parts dt=*, expected one, as in "
            "data/dt=*/*.tfrecord. Each day replaces the star"
        )
    return [_PLACE.sub(f"dt={day}", pattern) for day in days]


def has_days(pattern: str) -> bool:
    """Whether days can be chosen: whether a part of the pattern is `dt=*`."""
    return _PLACE.search(pattern) is not None


# Wildcards ignore names with these first characters: hidden files, and files that describe a
# folder.
_HIDDEN = (".", "_")

_WILDCARD = re.compile(r"[*?[]")


def expand(
    patterns: Sequence[str],
    *,
    flag: str = "patterns",
    days: Sequence[str] = (),
    as_given: bool = False,
) -> list[str]:
    """Lists all files that match, in the order of `file_systems.ordered` and without duplicates.

    Two spellings of a local path (`a`, `./a`, the absolute path) are one file.

    Args:
      patterns: paths or globs; see the module. Local paths do not need TensorFlow.
      flag: the name of the patterns in error messages.
      days: if given, each pattern must have a part `dt=*`, and each day replaces its star
        (`days.of_days`).
      as_given: keeps the order of the patterns, and a file once for each pattern that it matches.
        Only the files of one pattern are ordered then.

    Raises:
      DataError: a pattern or one of its days matches nothing, a match is a link to a file that does
        not exist, two days are the same folder, or `patterns` is empty. Without this error,
        training on zero files would end after 0 steps and look successful.
      MissingPackageError: TensorFlow cannot read such paths.
    """
    if not patterns:
        raise DataError(f"{flag} is empty. Name the TFRecord files to read")
    paths: list[str] = []
    for pattern in patterns:
        file_systems.check(pattern, flag=flag)
        if days:
            paths += _paths_of_days(pattern, tuple(days), flag)
            continue
        matches = glob(pattern)
        if not matches:
            folders = sorted(glob(pattern, with_folders=True))
            remedy = (
                f": {folders[0]} is a folder. Name its files: {folders[0]}/*" if folders else ""
            )
            raise DataError(f"no file matches {pattern!r} of {flag}{remedy}")
        paths += unique(matches) if as_given else matches
    for path in paths:
        _check_link(path, flag)
    return paths if as_given else unique(paths)


def unique(paths: Sequence[str]) -> list[str]:
    """The paths in the order of `file_systems.ordered`, with only one spelling of each file."""
    ordered = file_systems.ordered(paths)
    names = file_systems.canonical_of(ordered)
    first: dict[str, str] = {}
    for path in ordered:
        first.setdefault(names[path], path)
    return list(first.values())


_NAMED = re.compile(r"([a-z][a-z0-9_]*)=(?!/*$)(.*)", re.DOTALL)


def named(entry: str) -> tuple[Optional[str], str]:
    """The name and the pattern of an entry such as `test=b/*.tfrecord`; None without a name.

    A path may begin in the same way, such as `dt=2026-01-08/a.tfrecord`. `dt` is never a name. And
    if a local file or folder fits the entry up to its first slash, such as `country=de`, the entry
    is a path.
    """
    match = _NAMED.fullmatch(entry)
    if match is None or match[1] == "dt" or glob(entry.partition("/")[0], with_folders=True):
        return None, entry
    return match[1], match[2]


def shared(paths: Sequence[str], others: Sequence[str]) -> list[str]:
    """The first paths whose files are also in the second ones, in any spelling, or by a link."""
    places = set(_places(others).values())
    return [path for path, place in _places(paths).items() if place in places]


def _places(paths: Sequence[str]) -> dict[str, str]:
    """Where the file of each path is: `canonical`, or the place that a link leads to."""
    return {
        path: os.path.realpath(path) if os.path.islink(path) else name
        for path, name in file_systems.canonical_of(paths).items()
    }


def glob(pattern: str, *, with_folders: bool = False) -> list[str]:
    """The files that match one pattern, in no particular order; see the module.

    `with_folders` adds folders, and saves a question to the file system for each match.
    """
    fetched = copies.matches(pattern, with_folders=with_folders)
    if fetched is not None:
        return [path for path in fetched if not _is_hidden(path, pattern)]
    pattern = _with_literal_names(pattern)
    matches = (path for path in _glob(pattern) if not _is_hidden(path, pattern))
    return [_tidy(path) for path in matches if with_folders or not _is_folder(path)]


def _check_link(path: str, flag: str) -> None:
    """A link whose file was removed is in the list of its folder, and cannot be opened."""
    is_local = file_systems.scheme_of(path) is None
    if is_local and os.path.islink(path) and not os.path.exists(path):
        raise DataError(
            f"{flag}: {path} is a link to {os.readlink(path)}, which does not exist. Remove the "
            "link, or restore its file"
        )


def _paths_of_days(pattern: str, days: tuple[str, ...], flag: str) -> list[str]:
    by_day = dict(zip(days, of_days(pattern, days)))
    matches = {day: glob(of_day) for day, of_day in by_day.items()}
    missing = [day for day, day_files in matches.items() if not day_files]
    if missing:
        some = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        raise DataError(
            f"{flag}: {len(missing)} of {len(days)} days are missing ({some}): no file matches "
            f"{by_day[missing[0]]!r}. Write them, or choose other days"
        )
    owner: dict[str, str] = {}
    for day, paths in matches.items():
        for path, name in file_systems.canonical_of(paths).items():
            if owner.setdefault(name, day) != day:
                raise DataError(
                    f"{flag}: the days {owner[name]} and {day} are one folder, by a link: both "
                    f"have {path}. Remove the link, or choose other days"
                )
    return [path for paths in matches.values() for path in paths]


def _with_literal_names(pattern: str) -> str:
    """The pattern without wildcards in the parts that are names of existing files or folders."""
    parts = pattern.split("/")
    for i, part in enumerate(parts):
        if "[" in part and not {"*", "?"} & set(part):
            literal = part.replace("[", "[[]")
            if _glob("/".join([*parts[:i], literal])):
                parts[i] = literal
    return "/".join(parts)


def _is_hidden(path: str, pattern: str) -> bool:
    """Whether a wildcard of the pattern matched a hidden name."""
    # From the right, because the start of a path may be written in another way.
    pairs = zip(reversed(_parts(path)), reversed(_parts(pattern)))
    return any(
        name.startswith(_HIDDEN) and _WILDCARD.search(part) and not part.startswith(_HIDDEN)
        for name, part in pairs
    )


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _tidy(path: str) -> str:
    """A local path without `.` and double slashes. With a link, `link/..` is another folder."""
    if file_systems.scheme_of(path) or ".." in path.split("/"):
        return path
    return os.path.normpath(path)


def _glob(pattern: str) -> list[str]:
    if file_systems.scheme_of(pattern) is None:
        return local_glob(pattern.replace("[^", "[!"))  # As in the patterns of TensorFlow.
    import tensorflow as tf

    return list(tf.io.gfile.glob(pattern))


def _is_folder(path: str) -> bool:
    if file_systems.scheme_of(path) is None:
        return os.path.isdir(path)
    import tensorflow as tf

    return bool(tf.io.gfile.isdir(path))
