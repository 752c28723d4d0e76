"""`--rollback`: makes the version before a bad one live again.

The new version is a copy with a higher number, as after `--mode=rollback`. Its mark says which
version it replaces, and why, and appears with it in one rename. So a process that is killed leaves
either the bad version live or everything done, and the next start finds which. The cycle that made
the bad model gets the note in its `lineage.json`; a later start writes it if this one died before.

A version is never rolled back to a model that monitoring rolled back before. And a version that is
itself live by a rollback is not rolled back: if the model before is bad as well, the cause is
elsewhere, such as in the data, and each further step back would be to an older model.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import Optional

from estimator_kit.errors import Locked
from estimator_kit.retraining import cycle_files, cycle_versions, modes
from estimator_kit.retraining.lineage import Lineage, RolledBack
from estimator_kit.retraining.promotion import Serving, Version

_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass(frozen=True)
class Target:
    """The version to make live again, or why none can be."""

    version: Optional[Version]
    why_not: str = ""


def target(serving: Serving) -> Target:
    """The newest version before the live one whose model may go live again."""
    live = serving.live
    if live is None:
        return Target(None, "no version is live")
    if live.rollback_of is not None:
        return Target(
            None,
            f"version {live.number} is live by a rollback itself, so the cause may be in the data. "
            "Look at monitor.html; --mode=rollback --to=... makes any version live",
        )
    rejected = cycle_versions.rolled_back(serving)
    for version in reversed(serving.versions()[:-1]):
        if version.number not in rejected:
            return Target(version)
    return Target(None, f"{serving.folder} has no earlier version that was not rolled back")


def roll_back(serving: Serving, to: Version, *, bad: int, reason: str) -> Version:
    """Makes an earlier version live again, and returns the new version.

    Args:
      serving: the serving directory.
      to: the version that is copied.
      bad: the version that is live and is too bad.
      reason: why, for its lineage.

    Raises:
      Locked: another model went live in the meantime, or another process publishes there.
      ExportError: the earlier version does not load.
    """

    def check_live(live: Optional[Version]) -> None:
        if live is None or live.number != bad:
            raise Locked(
                f"another model went live in {serving.folder} after version {bad} was judged. "
                "Start again."
            )

    return serving.publish(
        to.path,
        cycle=to.cycle,
        verify=modes.loads,
        rollback_of=to.number,
        rejected=bad,
        reason=reason,
        check_live=check_live,
    )


def record(serving: Serving, model_dir: str) -> None:
    """Notes each rollback by monitoring in the lineage of the cycle whose model was bad."""
    cycles = cycle_files.cycles(model_dir)
    versions = {version.number: version for version in cycle_versions.versions(serving)}
    for by in versions.values():
        bad = versions.get(by.rejected) if by.rejected is not None else None
        owner = cycle_versions.owner(bad, serving, cycles)
        lineage = owner.load(Lineage) if owner is not None else None
        if bad is None or owner is None or lineage is None or lineage.rolled_back is not None:
            continue  # A cycle that has no lineage yet is noted at the next start.
        noted = RolledBack(version=bad.number, by=by.number, at=by.at, reason=by.reason)
        owner.save(lineage.model_copy(update={"rolled_back": noted}))
        _log.info("cycle %s: version %d was rolled back", owner.name, bad.number)
