"""Whether a cycle has gone live: noted before it does, so that one that died is not taken for less.

    begin(folder, serving)      before `Serving.publish`: writes `publishing.json`
    find(folder, serving)       the version that it went live as, or None

A cycle may die between the rename that puts its model live and the file that says so, and somebody
may have rolled back since. Its version is told by its mark, which names the cycle, and by a number
above all those that there were before: the cycle 0001 of a model directory that was begun anew is
not that of the old one, whose versions a serving directory may still have. Changes nothing that is
served.
"""

from __future__ import annotations

import os
from typing import Optional

from estimator_kit.retraining.promotion import Serving, Version
from estimator_kit.retraining.state import CycleFolder


def begin(folder: CycleFolder, serving: Serving) -> None:
    """Notes that a cycle is about to go live; what an earlier start noted stays."""
    if folder.read("publishing") is None:
        numbers = [version.number for version in _all(serving)]
        folder.write("publishing", {"above": max(numbers, default=0)})


def find(folder: CycleFolder, serving: Serving) -> Optional[Version]:
    """The version that a cycle went live as, though it may be gone or rolled back since."""
    noted = folder.read("publishing")
    if noted is None:
        return None
    for version in _all(serving):
        is_own = version.cycle == folder.name and version.rollback_of is None
        if is_own and version.number > noted["above"]:
            return version
    return None


def _all(serving: Serving) -> list[Version]:
    """The versions that are there, and those that were."""
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
