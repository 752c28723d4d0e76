"""Which versions of an export are kept; see `feature_specs.files.versions` for their folders.

    <folder>/keep.json    {"pinned": {version: why}, "live": [version]}

Retention never deletes a version that `keep.json` names. Users write this file. The kit only reads
it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from estimator_kit import storage
from estimator_kit.errors import ConfigError
from feature_specs.files import file_systems, staged, versions


def delete_old(folder: str, keep: int, also: Sequence[str] = ()) -> list[str]:
    """Deletes all but the newest `keep` versions of a folder; returns the deleted paths.

    Versions that are pinned or live, or named in `also`, stay and do not count.
    """
    protected = {*kept(folder), *also}
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
    entries = _read(folder)
    return {*entries["pinned"], *entries["live"]}


def _path(folder: str) -> str:
    return os.path.join(folder, "keep.json")


def _read(folder: str) -> dict:
    entries = storage.read_json(_path(folder))
    if entries is None:
        return {"pinned": {}, "live": []}
    good = isinstance(entries, dict) and set(entries) <= {"pinned", "live"}
    good = good and isinstance(entries.get("pinned", {}), dict)
    live = entries.get("live", []) if good else None
    if not isinstance(live, list) or not all(isinstance(version, str) for version in live):
        raise ConfigError(
            f'{_path(folder)}: expected {{"pinned": {{version: why}}, "live": [version]}}. Repair '
            "the file: without it, versions that are pinned or live could be deleted."
        )
    return {"pinned": dict(entries.get("pinned", {})), "live": live}
