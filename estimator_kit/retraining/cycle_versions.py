"""Finds out whether a cycle went live, even if it died just after that.

    begin(folder, serving)      writes `publishing.json`, and returns a token for `Serving.publish`
    find(folder, serving)       the version that the cycle went live as, or None
    owner(version, serving, cycles)     the cycle that made the model of a version, or None
    rolled_back(serving)                the versions that monitoring rolled back
    waiting_canary(serving)             the canary that `canaries.promote` may make live, or None

A cycle may die after the rename that makes its model live, and before the file that records it. A
user may also have rolled back since. The version of a cycle has the random token of
`publishing.json` in its mark. The name of the cycle is not enough: another model directory may
publish in the same serving directory, or this one was deleted and started again, and each has a
cycle 0001. An older kit wrote no token. Then the mark names the cycle, and the number of the
version is above all numbers that there were. This module does not change what is served.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_kit.retraining.cycle_files import CycleFile, CycleFolder, StageFile
from estimator_kit.retraining.promotion import Serving, Version


class Publishing(CycleFile):
    """The largest number of a version before a cycle goes live, and the token of its version."""

    NAME = "publishing.json"
    above: int
    token: Optional[str] = None


class Promoted(StageFile):
    """The version that a cycle published, with its folder; None if it was refused.

    The label is `canary` if it did not go live.
    """

    NAME = "promote.json"
    version: Optional[int]
    path: Optional[str] = None
    label: Optional[str] = None


def begin(folder: CycleFolder, serving: Serving) -> Optional[str]:
    """Records that a cycle is about to go live. Keeps the record of an earlier start.

    Returns the token that identifies its version; None if an older kit began.
    """
    publishing = folder.load(Publishing)
    if publishing is None:
        numbers = [version.number for version in versions(serving)]
        publishing = Publishing(above=max(numbers, default=0), token=uuid.uuid4().hex)
        folder.save(publishing)
    return publishing.token


def find(folder: CycleFolder, serving: Serving) -> Optional[Version]:
    """The version that a cycle published. It may have been removed or rolled back since."""
    publishing = folder.load(Publishing)
    if publishing is None:
        return None
    for version in versions(serving):
        is_own = version.cycle == folder.name and version.source is None
        if is_own and version.number > publishing.above and version.token == publishing.token:
            return version
    return None


def owner(
    version: Optional[Version], serving: Serving, cycles: Sequence[CycleFolder]
) -> Optional[CycleFolder]:
    """The cycle that made the model of a version, or None if it is not one of `cycles`.

    Of a copy, it is the cycle that made the version that was copied.
    """
    numbered = {each.number: each for each in versions(serving)}
    while version is not None and version.source is not None:
        version = numbered.get(version.source)
    for cycle in cycles:
        if version is not None and version.cycle == cycle.name:
            own = find(cycle, serving)
            return cycle if own is not None and own.number == version.number else None
    return None


def rolled_back(serving: Serving) -> dict[int, Version]:
    """The versions that monitoring rolled back, each with the version that replaced it.

    A copy of such a version has its number here, too. A version that a person made live again with
    `--mode=rollback` is not among them any more.
    """
    numbered = {each.number: each for each in versions(serving)}
    roots = {number: _root(number, numbered) for number in numbered}
    bad: dict[int, Version] = {}
    for number, version in sorted(numbered.items()):
        if version.rejected is not None:
            bad[roots.get(version.rejected, version.rejected)] = version
        elif version.rollback_of is not None:
            bad.pop(roots[number], None)
    return {number: bad[root] for number, root in roots.items() if root in bad}


def waiting_canary(serving: Serving) -> Optional[Version]:
    """The canary, unless it was promoted, or monitoring rolled it back."""
    canary = serving.canaries.live
    if canary is None or canary.number in rolled_back(serving):
        return None
    copies = {version.canary for version in versions(serving)}
    return None if canary.number in copies else canary


def _root(number: int, numbered: Mapping[int, Version]) -> int:
    """The version of which this one is a copy, directly or through others; or itself."""
    seen = set()
    while number in numbered and number not in seen:
        seen.add(number)
        source = numbered[number].source
        if source is None:
            break
        number = source
    return number


def versions(serving: Serving) -> list[Version]:
    """The existing versions and canaries, and the removed ones."""
    existing = [*serving.versions(), *serving.canaries.versions()]
    numbers = {version.number for version in existing}
    gone = [entry for entry in serving.past() if entry.version not in numbers]
    return [*existing, *(serving.version(entry.version, entry) for entry in gone)]
