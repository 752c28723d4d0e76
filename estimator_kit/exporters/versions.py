"""Which versions of an export are kept; see `feature_specs.files.versions` for their folders.

    <folder>/keep.json    {"pinned": {version: why}, "live": [version]}

Retention never deletes a version that `keep.json` names. Users write this file. The kit only reads
it.
"""

from __future__ import annotations

import os
from typing import Union

import pydantic

from feature_specs.files import documents, file_systems, staged, versions


class _Keep(documents.Document):
    """`keep.json`. A misspelled field is an error, or its versions could be deleted."""

    model_config = pydantic.ConfigDict(extra="forbid")
    remedy = "Repair it: without it, versions that are pinned or live could be deleted."

    pinned: dict[str, pydantic.JsonValue] = pydantic.Field({})
    live: list[Union[str, int]] = pydantic.Field([])


def delete_old(folder: str, keep: int) -> list[str]:
    """Deletes all but the newest `keep` versions of a folder; returns the deleted paths.

    Versions that are pinned or live stay and do not count.
    """
    protected = kept(folder)
    free = [path for path in versions.paths(folder) if os.path.basename(path) not in protected]
    deleted = free[:-keep]
    for path in deleted:
        staged.remove_folder(path)
    return deleted


def delete(folder: str, version: str) -> bool:
    """Deletes a version unless it is pinned or live; returns whether it did."""
    path = os.path.join(folder, version)
    if version in kept(folder) or not file_systems.is_folder(path):
        return False
    staged.remove_folder(path)
    return True


def kept(folder: str) -> set[str]:
    """The names of the versions that are pinned or live."""
    keep = _Keep.load(os.path.join(folder, "keep.json")) or _Keep()
    return {*keep.pinned, *map(str, keep.live)}
