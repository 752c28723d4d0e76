"""The stage that trains: it chooses the model to start from, and runs an experiment.

The training is an ordinary one, in `train/` of the cycle's folder, on the files of the window. If a
warm start does not fit, it starts from scratch. `start.json` stores this decision and the source,
which are made once for each cycle.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from typing import Any, Optional

import tensorflow as tf
from pydantic import Field

from estimator_kit import storage
from estimator_kit.checkpoints import reading
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.config.settings import RetrainingSettings, settings_of
from estimator_kit.distributed import tasks
from estimator_kit.errors import CheckpointError, NothingToDo
from estimator_kit.result import RunResult, read_result
from estimator_kit.retraining.promotion import Version
from estimator_kit.retraining.state import THROUGH, CycleFolder
from estimator_kit.retraining.window import Window
from estimator_kit.training import unfinished
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

# Settings of the cycle that its training does not use.
CYCLE_FIELDS = (
    *RetrainingSettings.model_fields,
    "exit_code_style",
    "generate_default_data",
    "prometheus_file",
    "tracking",
)


class _WarmStarted(storage.Form):
    name: str
    status: str


class _WarmStartReport(storage.Form):
    variables: list[_WarmStarted] = Field([])


@dataclasses.dataclass(frozen=True)
class Start:
    """The model that a training starts from.

    Attributes:
      kind: `live`, `last` or `scratch`.
      source: the value for --warm_start_from; None from scratch.
      cycle: the cycle that made the model, if known.
      reason: why the start differs from the spec's first choice; empty if it does not.
    """

    kind: str
    source: Optional[str] = None
    cycle: Optional[str] = None
    reason: str = ""


def choose_start(
    spec: FeatureSpec,
    *,
    live: Optional[Version],
    owner: Optional[CycleFolder],
    last: Optional[CycleFolder],
    cycles: list[CycleFolder],
) -> Start:
    """Chooses the start that the spec asks for, or the next best one that exists.

    Args:
      spec: the feature spec; its section `retraining` decides.
      live: the version that is served.
      owner: the cycle that made its model, if it is one of `cycles`.
      last: the last cycle that ran to its end, or None.
      cycles: all cycles.
    """
    section = spec.retraining
    if section.warm_start == "none":
        return Start("scratch")
    every = section.full_every
    if every is not None and _since_scratch(cycles) + 1 >= every:
        return Start("scratch", reason=f"a full retrain, which comes every {every} cycles")
    reason = ""
    if section.warm_start == "last":
        checkpoint = _checkpoint(last) if last is not None else None
        if last is not None and checkpoint is not None:
            return Start("last", checkpoint, last.name)
        gone = f"the training of cycle {last.name} was removed" if last is not None else ""
        reason = f"not from the last cycle: {gone or 'no cycle has ended yet'}"
    if live is None:
        return Start("scratch", reason="no model is live yet")
    checkpoint = _checkpoint(owner) if owner is not None else None
    if checkpoint is None:
        # An export has no slots; by default a warm start takes only the slots of FTRL.
        whose = f"of cycle {owner.name}" if owner is not None else f"of version {live.number}"
        export = f"the training {whose} is missing, so from its export, without optimizer slots"
        reason = f"{reason}; {export}" if reason else export
    return Start("live", checkpoint or live.path, owner.name if owner is not None else None, reason)


def _since_scratch(cycles: list[CycleFolder]) -> float:
    """How many cycles ran to their end since the last of them that started from scratch.

    Cycles that died or were abandoned do not count: a full retrain that died is repeated.
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
    """The config of a cycle's training. After a warm start, `warm_start_epochs` sets `epochs`."""
    defaults = {name: ExperimentConfig.model_fields[name].default for name in CYCLE_FIELDS}
    changes: dict[str, Any] = {
        "mode": "train_and_evaluate",
        "spec": spec,
        "model_dir": model_dir,
        "train_files": tuple(train_files),
        "eval_files": tuple(eval_files),
        "exporters": tuple(dict.fromkeys([*config.exporters, "final"])),
        "warm_start_from": start.source,
        # `window` has read all records, and left out damaged files. So training does not read all
        # of them for that again, and a file that has been damaged since then stops it.
        "corrupt_data_policy": "fail",
    }
    if start.source is not None and warm_start_epochs is not None:
        changes["epochs"] = warm_start_epochs
    given = config.model_dump(include=set(settings_of("retrain")))
    return ModelDirConfig(**{**given, **defaults, **changes})


def train(
    config: ExperimentConfig,
    folder: CycleFolder,
    window: Window,
    *,
    spec: str,
    start: Start,
    warm_start_epochs: Optional[int],
) -> dict[str, Any]:
    """Trains, or goes on with the cycle's training, and returns its result."""
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
        start = Start("scratch", reason=f"a warm start does not fit: {error}")
        _run(with_start(start), folder, start, True)
    result = read_result(folder.train_dir) or RunResult(mode="train")
    kept_keys = ("global_step", "metrics", "export_path", "rows_trained", "rows_evaluated")
    return {
        **{key: getattr(result, key) for key in kept_keys},
        "start": dataclasses.asdict(start),
        "warm_start": _warm_start_counts(folder),
    }


def _run(config: ModelDirConfig, folder: CycleFolder, start: Start, is_new: bool) -> None:
    if is_new:
        folder.write("start", dataclasses.asdict(start))
    try:
        tasks.train(config)
    except NothingToDo:
        # An earlier start finished the training, and died after that.
        _log.info("%s is already trained", folder.train_dir)
    unfinished.end(config.model_dir)  # A cycle has its own report.


def _warm_start_counts(folder: CycleFolder) -> dict[str, int]:
    """How many weights of the new model have each status in the warm start report."""
    report = storage.read_json(
        os.path.join(folder.train_dir, "warm_start_report.json"), _WarmStartReport
    )
    counts: dict[str, int] = {}
    for entry in (report or {}).get("variables", []):
        if entry["name"] == tf.compat.v1.GraphKeys.GLOBAL_STEP:
            continue  # The steps of a training always start at 0.
        counts[entry["status"]] = counts.get(entry["status"], 0) + 1
    return counts
