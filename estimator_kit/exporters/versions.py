"""Versions of an export: folders whose name is a number, and which are always complete.

    <folder>/1717171717/             a version, as servers expect it; the highest is the newest
    <folder>/.staging-<second>-<x>/  a version that is being written or deleted, or was when a
                                     process died
    <folder>/keep.json               {"pinned": {version: why}, "live": [version]}

A version is written under the staging name and renamed after its checks, so an incomplete export
never has the name of a version. (A store that cannot rename folders, such as a bucket, copies file
by file.) Retention never deletes a version that `keep.json` names. Users write this file. The kit
only reads it.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any, Optional

import pydantic
import tensorflow as tf

from feature_specs.files import documents, file_systems

# A plain number: not `007` or `²`.
_VERSION = re.compile(r"0|[1-9][0-9]*")
_STAGING = re.compile(r"\.staging-(\d+)-\w+")

# Seconds after which a staging folder counts as left by a dead process.
_LEFTOVER_SECS = 24 * 3600


class _Keep(documents.Document):
    """`keep.json`. A misspelled field is an error, or its versions could be deleted."""

    model_config = pydantic.ConfigDict(extra="forbid")
    remedy = "Repair it: without it, versions that are pinned or live could be deleted."

    pinned: dict[str, Any] = pydantic.Field({})
    live: list[str] = pydantic.Field([])


def versions(folder: str) -> list[str]:
    """Paths of the versions in a folder, the oldest first."""
    if not tf.io.gfile.isdir(folder):
        return []
    names = [name.rstrip("/") for name in tf.io.gfile.listdir(folder)]
    numbers = sorted(int(name) for name in names if _VERSION.fullmatch(name))
    return [os.path.join(folder, str(number)) for number in numbers]


def new_staging(folder: str, now: float) -> str:
    """The staging name for a new version. Removes old staging folders of dead processes."""
    tf.io.gfile.makedirs(folder)
    for entry in tf.io.gfile.listdir(folder):
        match = _STAGING.fullmatch(entry.rstrip("/"))
        if match and now - int(match[1]) > _LEFTOVER_SECS:
            tf.io.gfile.rmtree(os.path.join(folder, entry))
    # Not the number of the process, which two containers may share.
    return os.path.join(folder, f".staging-{int(now)}-{secrets.token_hex(4)}")


def publish(staged: str, folder: str, now: float) -> str:
    """Renames a staged version to a number higher than all others; returns its path."""
    while True:
        newest = versions(folder)[-1:]
        number = max([int(now), *(int(os.path.basename(path)) + 1 for path in newest)])
        path = os.path.join(folder, str(number))
        try:
            tf.io.gfile.rename(staged, path)
        except (tf.errors.AlreadyExistsError, tf.errors.FailedPreconditionError):
            if not tf.io.gfile.exists(path):
                raise
            continue  # Another process was faster.
        return path


def delete_old(folder: str, keep: int, also: Sequence[str] = ()) -> list[str]:
    """Deletes all but the newest `keep` versions of a folder; returns the deleted paths.

    Versions that are pinned or live, or named in `also`, stay and do not count.
    """
    protected = {*kept(folder), *also}
    free = [path for path in versions(folder) if os.path.basename(path) not in protected]
    deleted = free[:-keep]
    for path in deleted:
        _remove(path)
    return deleted


def delete(folder: str, version: str) -> bool:
    """Deletes a version unless it is pinned or live; returns whether it did."""
    path = os.path.join(folder, version)
    if version in kept(folder) or not tf.io.gfile.isdir(path):
        return False
    _remove(path)
    return True


def _remove(path: str) -> None:
    """Removes a version: first its name, so that no reader sees half of it."""
    if file_systems.scheme_of(path) is None:
        gone = new_staging(os.path.dirname(path), time.time())
        tf.io.gfile.rename(path, gone)
        path = gone
    tf.io.gfile.rmtree(path)


def kept(folder: str) -> set[str]:
    """The names of the versions that are pinned or live."""
    keep = _Keep.load(os.path.join(folder, "keep.json")) or _Keep()
    return {*keep.pinned, *keep.live}


def time_of(now: Optional[float]) -> float:
    """`now`, or the current time by default."""
    return time.time() if now is None else now
