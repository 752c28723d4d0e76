"""What is removed of old cycles and versions, and what never is.

Of an old cycle its training, exports and spec go; its reports and its lineage stay, they are small.
Kept whatever their age are what is live, what is pinned (a file `PINNED` in the cycle's folder),
what these two started from (without it a pinned cycle cannot be made again), and the cycles of all
versions in the serving directory: after a rollback the next training starts from one of them, and
an export has no slots of optimizers. So is the cycle that is at work. Abandoned cycles are not
counted, and go. Cached input has its own limit (`--input_cache_gib`).
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Sequence
from typing import Any, Optional

from estimator_kit.retraining.promotion import Serving, Version
from estimator_kit.retraining.state import THROUGH, CycleFolder

# What a cycle's folder has beside records.
_HEAVY = ("train", "spec", "reproduction")


def kept_cycles(
    cycles: Sequence[CycleFolder],
    *,
    live: Optional[Version],
    served: Sequence[Version] = (),
    newest: int,
    days: Optional[int],
    today: datetime.date,
) -> set[str]:
    """Names of the cycles that keep all that they have.

    Args:
      cycles: all, the oldest first; the last one is at work.
      live: the version that is served.
      served: the versions that one can roll back to.
      newest: so many of the newest that ran to their end are kept, the one at work among them,
      days: of those not older than this.
      today: that ages are counted from.
    """
    counted = [c for c in cycles if c is cycles[-1] or c.outcome in THROUGH]
    young = [cycle for cycle in counted if days is None or _age(cycle, today) <= days]
    kept = {cycle.name for cycle in counted[-newest:] if cycle in young}
    kept.update(cycle.name for cycle in cycles[-1:])
    for cycle in cycles:
        if cycle.pinned:
            kept.update([cycle.name, *_parent(cycle)])
    by_name = {cycle.name: cycle for cycle in cycles}
    owner = by_name.get(live.cycle or "") if live is not None else None
    if owner is not None:
        kept.update([owner.name, *_parent(owner)])
    kept.update(v.cycle for v in served if v.cycle is not None and v.cycle in by_name)
    return kept


def _parent(cycle: CycleFolder) -> list[str]:
    """The cycle that one started from, if any."""
    name = (cycle.read("start") or {}).get("cycle")
    return [name] if name else []


def _age(cycle: CycleFolder, today: datetime.date) -> int:
    window = cycle.read("window")
    if window is None:
        return 0
    return (today - datetime.date.fromisoformat(window["as_of"])).days


def clean(
    cycles: Sequence[CycleFolder],
    serving: Serving,
    *,
    newest: int,
    days: Optional[int],
    versions: int,
    today: datetime.date,
) -> dict[str, Any]:
    """Removes what is not kept, and says what that was.

    Args:
      cycles, newest, days, today: see `kept_cycles`.
      serving: of its versions all but the newest go, beside those of pinned cycles and those that
        a pinned cycle started from.
      versions: how many of them stay.
    """
    serving.clean()
    pinned = [cycle for cycle in cycles if cycle.pinned]
    names = {cycle.name for cycle in pinned}
    # A cycle may have started from what was served.
    starts = {(cycle.read("start") or {}).get("source") for cycle in pinned}
    gone = []
    for version in serving.versions()[:-versions]:
        if version.cycle not in names and version.path not in starts:
            serving.remove(version)
            gone.append(version.number)
    kept = kept_cycles(
        cycles, live=serving.live, served=serving.versions(), newest=newest, days=days, today=today
    )
    removed: list[str] = []
    for cycle in cycles:
        for name in _HEAVY if cycle.name not in kept else ():
            if os.path.isdir(cycle.at(name)):
                shutil.rmtree(cycle.at(name))
                removed.append(os.path.join(cycle.name, name))
    return {"removed": removed, "versions_removed": gone, "kept": sorted(kept)}
