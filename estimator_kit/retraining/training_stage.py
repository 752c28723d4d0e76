"""The stage that trains: it chooses the model to start from, and runs an experiment.

The training is an ordinary one, in `train/` of the cycle's folder, on the files of the window. If a
warm start does not fit, it starts from scratch. `start.json` stores this decision and the source,
which are made once for each cycle.
"""

from __future__ import annotations

import collections
import logging
import math
import os
from collections.abc import Collection
from typing import Any, Optional

import pydantic
import tensorflow as tf
from pydantic import Field

from estimator_kit.checkpoints import reading
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.monitoring import Monitoring
from estimator_kit.config.areas.retraining import Retraining
from estimator_kit.config.experiment_config import ExperimentConfig, ModelDirConfig
from estimator_kit.config.modes import TrainAndEvaluate, settings_of
from estimator_kit.distributed import tasks
from estimator_kit.errors import CheckpointError, NothingToDo
from estimator_kit.result import RunResult, read_result
from estimator_kit.retraining.cycle_files import THROUGH, CycleFile, CycleFolder, StageFile
from estimator_kit.retraining.promotion import Version
from estimator_kit.retraining.window import Window
from estimator_kit.training import unfinished
from feature_specs.files import documents
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

# Settings of the cycle that its training does not use.
CYCLE_FIELDS = (
    *Retraining.model_fields,
    *Monitoring.model_fields,
    "exit_code_style",
    "generate_default_data",
    "prometheus_file",
    "tracking",
)


class _WarmStarted(documents.Part):
    name: str
    status: str


class _WarmStartReport(documents.Document):
    variables: list[_WarmStarted] = Field([])


class Start(CycleFile):
    """The model that a training starts from.

    Attributes:
      kind: `live`, `last` or `scratch`.
      source: the value for --warm_start_from; None from scratch.
      cycle: the cycle that made the model, if known.
      reason: why the start differs from the spec's first choice; empty if it does not.
    """

    NAME = "start.json"
    kind: str
    source: Optional[str] = None
    cycle: Optional[str] = None
    reason: str = ""

    @pydantic.model_serializer
    def _all_fields(self) -> dict[str, Any]:
        """A file has all fields."""
        return dict(self)


class Trained(StageFile):
    """The result of a training, see `RunResult`, and how its weights started."""

    NAME = "train.json"
    global_step: Optional[int] = None
    metrics: Optional[dict[str, Optional[float]]] = None
    export_path: Optional[str] = None
    rows_trained: Optional[int] = None
    rows_evaluated: Optional[int] = None
    start: Start
    warm_start: dict[str, int] = Field({})


def choose_start(
    spec: FeatureSpec,
    *,
    live: Optional[Version],
    owner: Optional[CycleFolder],
    last: Optional[CycleFolder],
    cycles: list[CycleFolder],
    rolled_back: Collection[str] = (),
) -> Start:
    """Chooses the start that the spec asks for, or the next best one that exists.

    Args:
      spec: the feature spec; its section `retraining` decides.
      live: the version that is served.
      owner: the cycle that made its model, if it is one of `cycles`.
      last: the last cycle that ran to its end, or None.
      cycles: all cycles.
      rolled_back: the names of cycles whose model monitoring rolled back.
    """
    section = spec.retraining
    if section.warm_start == "none":
        return Start(kind="scratch")
    every = section.full_every
    if every is not None and _since_scratch(cycles) + 1 >= every:
        reason = f"a full retrain, which comes every {every} cycles"
        return Start(kind="scratch", reason=reason)
    reason = ""
    if section.warm_start == "last":
        is_bad = last is not None and last.name in rolled_back
        checkpoint = _checkpoint(last) if last is not None and not is_bad else None
        if last is not None and checkpoint is not None:
            return Start(kind="last", source=checkpoint, cycle=last.name)
        gone = f"the training of cycle {last.name} was removed" if last is not None else ""
        if last is not None and is_bad:
            gone = f"monitoring rolled back the model of cycle {last.name}"
        reason = f"not from the last cycle: {gone or 'no cycle has ended yet'}"
    if live is None:
        return Start(kind="scratch", reason="no model is live yet")
    checkpoint = _checkpoint(owner) if owner is not None else None
    if checkpoint is None:
        # An export has no slots; by default a warm start takes only the slots of FTRL.
        whose = f"of cycle {owner.name}" if owner is not None else f"of version {live.number}"
        export = f"the training {whose} is missing, so from its export, without optimizer slots"
        reason = f"{reason}; {export}" if reason else export
    cycle = owner.name if owner is not None else None
    return Start(kind="live", source=checkpoint or live.path, cycle=cycle, reason=reason)


def _since_scratch(cycles: list[CycleFolder]) -> float:
    """How many cycles ran to their end since the last of them that started from scratch.

    Cycles that died or were abandoned do not count: a full retrain that died is repeated.
    """
    through = [cycle for cycle in cycles if cycle.outcome in THROUGH]
    for count, cycle in enumerate(reversed(through)):
        start = cycle.load(Start)
        if start is not None and start.kind == "scratch":
            return count
    return math.inf


def _checkpoint(cycle: CycleFolder) -> Optional[str]:
    return reading.latest(cycle.train_dir) if os.path.isdir(cycle.train_dir) else None


def training_config(
    config: AllSettings,
    *,
    spec: str,
    model_dir: str,
    train_files: list[str],
    eval_files: list[str],
    eval_periods: tuple[str, ...] = (),
    start: Start,
    warm_start_epochs: Optional[int],
) -> ModelDirConfig:
    """The config of a cycle's training. After a warm start, `warm_start_epochs` sets `epochs`.

    Other evaluation sets stay as they are, but the folder of a period in their
    patterns becomes each folder of `eval_periods`.
    """
    defaults = {name: ExperimentConfig.model_fields[name].default for name in CYCLE_FIELDS}
    changes: dict[str, Any] = {
        "mode": "train_and_evaluate",
        "spec": spec,
        "model_dir": model_dir,
        "train_files": tuple(train_files),
        "eval_files": (*eval_files, *_other_sets(config, eval_periods)),
        "exporters": tuple(dict.fromkeys([*config.exporters, "final"])),
        "warm_start_from": start.source,
        # `window` has read all records, and left out damaged files. So training does not read all
        # of them for that again, and a file that has been damaged since then stops it.
        "corrupt_data_policy": "fail",
    }
    if start.source is not None and warm_start_epochs is not None:
        changes["epochs"] = warm_start_epochs
    settings = config.model_dump(include=set(settings_of("retrain")))
    return ModelDirConfig(**{**settings, **defaults, **changes})


def _other_sets(config: AllSettings, names: tuple[str, ...]) -> list[str]:
    """The entries of --eval_files that do not judge, for some periods."""
    entries, periods = [], config.periods
    for name, patterns in config.other_sets.items():
        for pattern in patterns:
            filled = [periods.fill(pattern, each) for each in names if periods.has(pattern)]
            entries += [f"{name}={path}" for path in filled or [pattern]]
    return entries


def train(
    config: AllSettings,
    folder: CycleFolder,
    window: Window,
    *,
    spec: str,
    start: Start,
    warm_start_epochs: Optional[int],
) -> Trained:
    """Trains, or goes on with the cycle's training, and returns its result."""
    kept = folder.load(Start)
    start = kept or start

    def with_start(chosen: Start) -> ModelDirConfig:
        return training_config(
            config,
            spec=spec,
            model_dir=folder.train_dir,
            train_files=[file.path for file in window.train_files],
            eval_files=[file.path for file in window.eval_files],
            eval_periods=tuple(period.name for period in window.evaluate),
            start=chosen,
            warm_start_epochs=warm_start_epochs,
        )

    try:
        _run(with_start(start), folder, start, kept is None)
    except CheckpointError as error:
        if start.source is None or os.path.exists(os.path.join(folder.train_dir, "checkpoint")):
            raise
        _log.warning("the warm start does not fit, so training starts from scratch: %s", error)
        start = Start(kind="scratch", reason=f"a warm start does not fit: {error}")
        _run(with_start(start), folder, start, True)
    result = read_result(folder.train_dir) or RunResult(mode="train")
    return Trained(
        global_step=result.global_step,
        metrics=dict(result.metrics),
        export_path=result.export_path,
        rows_trained=result.rows_trained,
        rows_evaluated=result.rows_evaluated,
        start=start,
        warm_start=_warm_start_counts(folder),
    )


def _run(config: ModelDirConfig, folder: CycleFolder, start: Start, is_new: bool) -> None:
    if is_new:
        folder.save(start)
    try:
        tasks.train(TrainAndEvaluate.of(config))
    except NothingToDo:
        # An earlier start finished the training, and died after that.
        _log.info("%s is already trained", folder.train_dir)
    unfinished.end_work(config.model_dir)  # A cycle has its own report.


def _warm_start_counts(folder: CycleFolder) -> dict[str, int]:
    report = _WarmStartReport.load(os.path.join(folder.train_dir, "warm_start_report.json"))
    # The steps of a training always start at 0.
    step = tf.compat.v1.GraphKeys.GLOBAL_STEP
    weights = [each for each in (report.variables if report else ()) if each.name != step]
    return dict(collections.Counter(each.status for each in weights))
