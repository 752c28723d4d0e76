"""Decides what to remove of old cycles and versions, and what to keep.

The training, the exports and the spec of an old cycle are removed. Its reports and its lineage
stay, because they are small. These cycles are kept whatever their age:

- the live cycle, the running cycle, and pinned cycles (with a file `PINNED` in their folder);
- the cycles that the live cycle and pinned cycles started from. Without them a pinned cycle cannot
  be reproduced;
- the cycles of all versions in the serving directory. After a rollback the next training starts
  from one of them, and an export has no optimizer slots.

Abandoned cycles do not count, and are removed. Cached input has its own limit
(`--input_cache_gib`).

Several model directories may share one serving directory, and another program may put versions
there. Only the model directory knows which of its cycles are pinned, so only versions of these
cycles are removed, and none that `keep.json` in the serving directory names (as in the folder of an
exporter: `exporters.kinds`). A version of others that a pinned cycle started from needs
`keep.json`: its owner does not know of the pin.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Optional

from pydantic import Field

from estimator_kit.errors import ConfigError, Locked
from estimator_kit.exporters import kinds
from estimator_kit.retraining import cycle_versions
from estimator_kit.retraining.cycle_files import THROUGH, CycleFolder, StageFile
from estimator_kit.retraining.promotion import Serving, Version
from estimator_kit.retraining.training_stage import Start
from feature_specs.files import file_systems

_log = logging.getLogger("estimator_kit")

# How many canaries stay: a server may still be loading the newest one.
_CANARIES = 2

# The large folders of a cycle.
_HEAVY = ("train", "spec", "reproduction")


class Cleaned(StageFile):
    """The folders of cycles and the versions that were removed, and the cycles kept whole."""

    NAME = "clean.json"
    removed: list[str] = Field([])
    versions_removed: list[int] = Field([])
    kept: list[str] = Field([])


def kept_cycles(
    cycles: Sequence[CycleFolder],
    *,
    live: Optional[Version],
    served: Sequence[Version] = (),
    newest: int,
) -> set[str]:
    """The names of the cycles that are kept whole.

    Args:
      cycles: all cycles, the oldest first. The last one is running.
      live: the version that is served.
      served: the versions in the serving directory.
      newest: how many of the newest cycles that ran to their end are kept, with the running one.
    """
    counted = [c for c in cycles if c is cycles[-1] or c.outcome in THROUGH]
    kept = {cycle.name for cycle in counted[-newest:]}
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
    """The cycle that this cycle started from, as a list of at most one name."""
    start = cycle.load(Start)
    return [start.cycle] if start is not None and start.cycle else []


def clean(
    cycles: Sequence[CycleFolder],
    serving: Serving,
    *,
    newest: int,
    versions: int,
) -> Cleaned:
    """Removes what is not kept, and returns what it removed.

    Args:
      cycles, newest: see `kept_cycles`.
      serving: the serving directory. Old versions of these cycles are removed, except the versions
        of pinned cycles, the versions that a pinned cycle started from, and those that `keep.json`
        names.
      versions: how many of the newest versions stay.
    """
    gone = _remove_versions(cycles, serving, versions)
    gone += _remove_versions(cycles, serving.canaries, _CANARIES)
    served = [*serving.versions(), *serving.canaries.versions()]
    kept = kept_cycles(cycles, live=serving.live, served=served, newest=newest)
    removed: list[str] = []
    for cycle in cycles:
        for name in _HEAVY if cycle.name not in kept else ():
            if os.path.isdir(cycle.at(name)):
                file_systems.remove_folder(cycle.at(name))
                removed.append(os.path.join(cycle.name, name))
    return Cleaned(removed=removed, versions_removed=gone, kept=sorted(kept))


def _remove_versions(cycles: Sequence[CycleFolder], serving: Serving, newest: int) -> list[int]:
    """Removes old versions, and returns their numbers."""
    pinned = [cycle for cycle in cycles if cycle.pinned]
    # A cycle may have started from a served version. Its number is enough: the path of the serving
    # directory may have been written otherwise, and no checkpoint has a number as its name.
    pinned_starts = [
        start for start in (cycle.load(Start) for cycle in pinned) if start is not None
    ]
    starts = {os.path.basename(os.path.normpath(start.source or "")) for start in pinned_starts}
    gone: list[int] = []
    of_others: list[str] = []
    try:
        serving.clean()
        keep = {*starts, *kinds.kept(serving.folder)}
        for version in serving.versions()[:-newest]:
            owner = cycle_versions.owner(version, serving, cycles)
            if owner is None:
                of_others.append(str(version.number))
            elif not owner.pinned and str(version.number) not in keep:
                serving.remove(version)
                gone.append(version.number)
    except (Locked, ConfigError) as error:
        _log.warning("old versions stay until the next cycle: %s", error)
    if of_others:
        _log.info(
            "%s: the old versions %s stay, because no cycle of this model directory made them. "
            "Remove the folders that nobody needs.",
            serving.folder,
            ", ".join(of_others),
        )
    return gone
