"""Canaries: models that passed the gate and wait for a person, next to the live version.

    promote(run, retraining)             `--mode=promote`: makes the canary `--to` live
    record(serving, model_dir)           notes in each lineage what became of its canary

A canary is a version in the sibling of the serving directory with `.canary` at its end. There,
servers know it under another name (`ads_canary`), so requests to `ads` never reach it. The newest
version of the folder is the canary, and replaces those before it. Promotion copies it into the
serving directory, as a rollback does: one rename makes it live, and the mark of the new version has
the number of the canary. The notes in lineages follow from the marks. If a process dies before it
has written them, the next cycle, promotion or monitoring does.
"""

from __future__ import annotations

import logging

from estimator_kit.config.modes import InFolder, ToVersion
from estimator_kit.errors import ConfigError
from estimator_kit.retraining import cycle_files, cycle_versions, modes
from estimator_kit.retraining.lineage import AsCanary, Lineage
from estimator_kit.retraining.promotion import Serving, Version
from estimator_kit.retraining.stages import serving_of
from feature_specs.files import owners

_log = logging.getLogger("estimator_kit")


def promote(run: InFolder, retraining: ToVersion) -> str:
    """Makes the canary `--to` live as a new version, and returns a sentence about it.

    If a copy of the canary is live already, nothing changes.

    Raises:
      ConfigError: it is not the canary, or monitoring rolled back a copy of it.
      ExportError: the canary does not load.
      Locked: a cycle is running.
    """
    _find(serving_of(run, retraining), retraining.to)  # Before the lock makes a folder.
    with owners.held(run.model_dir) as lock:
        serving = serving_of(run, retraining, lock)
        canary, live = _find(serving, retraining.to), serving.live
        if live is not None and live.canary == canary.number:
            record(serving, run.model_dir)
            return f"version {live.number} is live already. It is a copy of canary {canary.number}."
        published = serving.publish(
            canary.path, cycle=canary.cycle, verify=modes.loads, canary=canary.number
        )
        record(serving, run.model_dir)
    replaces = f", and replaces version {live.number}" if live is not None else ""
    return (
        f"version {published.number} is live. It is a copy of canary {canary.number} of cycle "
        f"{canary.cycle}{replaces}."
    )


def _find(serving: Serving, number: int) -> Version:
    """The canary with this number, which may go live."""
    canary = serving.canaries.live
    if canary is None or canary.number != number:
        hint = "retrain --promote_as=canary makes one."
        if canary is not None:
            hint = f"The canary is version {canary.number}."
        elif any(version.number == number for version in serving.versions()):
            hint = "To make an earlier version live again, use --mode=rollback."
        raise ConfigError(
            f"--to={number}: {serving.canaries.folder} has no canary {number}. {hint}"
        )
    by = cycle_versions.rolled_back(serving).get(number)
    if by is not None:
        raise ConfigError(
            f"--to={number}: monitoring rolled back a copy of canary {number}, and version "
            f"{by.number} replaced it: {by.reason}. Wait for the next canary."
        )
    return canary


def record(serving: Serving, model_dir: str) -> None:
    """Notes in the lineage of each cycle what became of its canary, if that is not there yet."""
    versions = sorted(cycle_versions.versions(serving), key=lambda version: version.number)
    cycles = cycle_files.cycles(model_dir)
    published = [version for version in versions if version.label is not None]
    for canary, later in zip(published, [*published[1:], None]):
        copies = [version.number for version in versions if version.canary == canary.number]
        owner = cycle_versions.owner(canary, serving, cycles)
        lineage = owner.load(Lineage) if owner is not None else None
        if owner is None or lineage is None:
            continue  # A cycle that has no lineage yet notes it at its end.
        found = AsCanary(
            version=canary.number,
            promoted_as=max(copies, default=None),
            superseded_by=later.number if later is not None and not copies else None,
        )
        if lineage.canary != found:
            owner.save(lineage.model_copy(update={"canary": found}))
            _log.info("cycle %s: %s", owner.name, found)
