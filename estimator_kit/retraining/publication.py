"""Finds out whether a cycle went live, even if it died just after that.

    begin(folder, serving)      writes `publishing.json`, before `Serving.publish`
    find(folder, serving)       the version that the cycle went live as, or None
    owner(version, serving, cycles)     the cycle that made the model of a version, or None

A cycle may die after the rename that makes its model live, and before the file that records it. A
user may also have rolled back since. Two facts identify the version of a cycle: its mark names the
cycle, and its number is above all numbers in `publishing.json`. The number matters when a model
directory was deleted and started again: the serving directory may still have versions of the old
cycle 0001, and another model directory may publish there too. This module does not change what is
served.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Optional

from estimator_kit.retraining.promotion import Serving, Version
from estimator_kit.retraining.state import CycleFolder


def begin(folder: CycleFolder, serving: Serving) -> None:
    """Records that a cycle is about to go live. Keeps the record of an earlier start."""
    if folder.read("publishing") is None:
        numbers = [version.number for version in _all(serving)]
        folder.write("publishing", {"above": max(numbers, default=0)})


def find(folder: CycleFolder, serving: Serving) -> Optional[Version]:
    """The version that a cycle went live as. It may have been removed or rolled back since."""
    noted = folder.read("publishing")
    if noted is None:
        return None
    for version in _all(serving):
        is_own = version.cycle == folder.name and version.rollback_of is None
        if is_own and version.number > noted["above"]:
            return version
    return None


def owner(
    version: Optional[Version], serving: Serving, cycles: Sequence[CycleFolder]
) -> Optional[CycleFolder]:
    """The cycle that made the model of a version, or None if it is not one of `cycles`.

    After a rollback, it is the cycle that made the version that was copied.
    """
    numbered = {each.number: each for each in _all(serving)}
    while version is not None and version.rollback_of is not None:
        version = numbered.get(version.rollback_of)
    for cycle in cycles:
        if version is not None and version.cycle == cycle.name:
            own = find(cycle, serving)
            return cycle if own is not None and own.number == version.number else None
    return None


def _all(serving: Serving) -> list[Version]:
    """The existing versions, and the removed ones."""
    there = serving.versions()
    known = {version.number for version in there}
    gone = [
        Version(
            entry["version"],
            os.path.join(serving.folder, str(entry["version"])),
            entry.get("cycle"),
            entry.get("rollback_of"),
            entry.get("parent"),
        )
        for entry in serving.past()
        if entry["version"] not in known
    ]
    return [*there, *gone]
