"""The stage that trains: where it starts from, and the experiment that it runs.

The training is an ordinary one, in `train/` of the cycle's folder, on the
files of the window by name. Where a warm start does not fit, it starts from scratch; that and the
source are decided once a cycle and kept in `start.json`.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from typing import Any, Optional

from pydantic import Field

from estimator_kit import storage
from estimator_kit.checkpoints import reading
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.config.settings import RetrainingSettings
from estimator_kit.distributed import tasks
from estimator_kit.errors import CheckpointError, NothingToDo
from estimator_kit.result_file import read_result
from estimator_kit.retraining.promotion import Version
from estimator_kit.retraining.state import THROUGH, CycleFolder
from estimator_kit.retraining.window import Window
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

# Settings of the cycle, and not of its training.
CYCLE_FIELDS = (*RetrainingSettings.model_fields, "exit_code_style", "generate_default_data")


class _WarmStarted(storage.Form):
    status: str


class _WarmStartReport(storage.Form):
    variables: list[_WarmStarted] = Field([])


@dataclasses.dataclass(frozen=True)
class Start:
    """Where a training starts.

    Attributes:
      kind: `live`, `last` or `scratch`.
      source: what --warm_start_from is given; None from scratch.
      cycle: whose model that is, where it is known.
      reason: why it is not what the spec asks for first; empty when it is.
    """

    kind: str
    source: Optional[str] = None
    cycle: Optional[str] = None
    reason: str = ""


def choose_start(
    spec: FeatureSpec,
    *,
    live: Optional[Version],
    last: Optional[CycleFolder],
    cycles: list[CycleFolder],
) -> Start:
    """What the spec asks for, as far as it is there.

    Args:
      spec: its section `retraining` decides.
      live: the version that is served.
      last: the cycle before, if there is one.
      cycles: all of them.
    """
    section = spec.retraining
    if section.warm_start == "none":
        return Start("scratch")
    every = section.full_every
    if every is not None and _since_scratch(cycles) + 1 >= every:
        return Start("scratch", reason=f"a full retrain, as of every {every} cycles")
    by_name = {cycle.name: cycle for cycle in cycles}
    reason = ""
    if section.warm_start == "last":
        checkpoint = _checkpoint(last) if last is not None else None
        if last is not None and checkpoint is not None:
            return Start("last", checkpoint, last.name)
        gone = f"the training of cycle {last.name} is gone" if last is not None else ""
        reason = f"not from the last cycle: {gone or 'there is none'}"
    if live is None:
        return Start("scratch", reason="there is no live model yet")
    owner = by_name.get(live.cycle or "")
    checkpoint = _checkpoint(owner) if owner is not None else None
    if checkpoint is None:
        # An export has no slots; by default a warm start takes those of FTRL alone.
        whose = f"of cycle {live.cycle}" if live.cycle is not None else f"of version {live.number}"
        export = f"the training {whose} is not here, so from its export, without optimizer slots"
        reason = f"{reason}; {export}" if reason else export
    return Start("live", checkpoint or live.path, live.cycle, reason)


def _since_scratch(cycles: list[CycleFolder]) -> float:
    """How many cycles ran to their end since one of them started from scratch.

    Those that died or were abandoned count for nothing, so that a full one is not lost with them.
    """
    through = [cycle for cycle in cycles if cycle.outcome in THROUGH]
    for count, cycle in enumerate(reversed(through)):
        if (cycle.read("start") or {}).get("kind") == "scratch":
            return count
    return math.inf


def _checkpoint(cycle: CycleFolder) -> Optional[str]:
    return reading.latest(cycle.train_dir) if os.path.isdir(cycle.train_dir) else None


def training_config(
    config: ExperimentConfig,
    *,
    spec: str,
    model_dir: str,
    train_files: list[str],
    eval_files: list[str],
    start: Start,
    warm_start_epochs: Optional[int],
) -> ModelDirConfig:
    """The config of a cycle's training; `epochs` are those of its start."""
    defaults = {name: ExperimentConfig.model_fields[name].default for name in CYCLE_FIELDS}
    changes: dict[str, Any] = {
        "mode": "train_and_evaluate",
        "spec": spec,
        "model_dir": model_dir,
        "train_files": tuple(train_files),
        "eval_files": tuple(eval_files),
        "exporters": tuple(dict.fromkeys([*config.exporters, "final"])),
        "warm_start_from": start.source,
    }
    if start.source is not None and warm_start_epochs is not None:
        changes["epochs"] = warm_start_epochs
    return ModelDirConfig(**{**config.model_dump(), **defaults, **changes})


def train(
    config: ExperimentConfig,
    folder: CycleFolder,
    window: Window,
    *,
    spec: str,
    start: Start,
    warm_start_epochs: Optional[int],
) -> dict[str, Any]:
    """Trains from wherever the cycle's training is, and returns what it came to."""
    kept = folder.read("start")
    if kept is not None:
        start = Start(
            **{
                field.name: kept[field.name]
                for field in dataclasses.fields(Start)
                if field.name in kept
            }
        )

    def with_start(chosen: Start) -> ModelDirConfig:
        return training_config(
            config,
            spec=spec,
            model_dir=folder.train_dir,
            train_files=[file.path for file in window.train_files],
            eval_files=[file.path for file in window.eval_files],
            start=chosen,
            warm_start_epochs=warm_start_epochs,
        )

    try:
        _run(with_start(start), folder, start, kept is None)
    except CheckpointError as error:
        if start.source is None or os.path.exists(os.path.join(folder.train_dir, "checkpoint")):
            raise
        _log.warning("the warm start does not fit, so training starts from scratch: %s", error)
        start = Start("scratch", reason=f"a warm start does not fit: {str(error).splitlines()[0]}")
        _run(with_start(start), folder, start, True)
    result = read_result(folder.train_dir) or {}
    kept_keys = ("global_step", "metrics", "export_path", "rows_trained", "rows_evaluated")
    return {
        **{key: result.get(key) for key in kept_keys},
        "start": dataclasses.asdict(start),
        "warm_start": _warm_start_counts(folder),
    }


def _run(config: ModelDirConfig, folder: CycleFolder, start: Start, is_new: bool) -> None:
    if is_new:
        folder.write("start", dataclasses.asdict(start))
    try:
        tasks.train(config)
    except NothingToDo:
        _log.info("%s is already trained", folder.train_dir)  # By a start that died after it.


def _warm_start_counts(folder: CycleFolder) -> dict[str, int]:
    """Variables of the new model by what became of them."""
    report = storage.read_json(
        os.path.join(folder.train_dir, "warm_start_report.json"), _WarmStartReport
    )
    counts: dict[str, int] = {}
    for entry in (report or {}).get("variables", []):
        counts[entry["status"]] = counts.get(entry["status"], 0) + 1
    return counts
