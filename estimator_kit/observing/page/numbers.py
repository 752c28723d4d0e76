"""Everything that the report page shows, read from the files of a model directory.

    numbers = read("runs/ads")
    numbers.series("auc/click")     # [(step, value), ...]

It only reads: no graph is built, no data file is opened, and nothing is computed that an evaluation
should have written. A part that a run did not write is empty, and the page leaves its section out.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Optional

import tensorflow as tf
from pydantic import JsonValue

from estimator_kit.checkpoints import reading, run_record
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from estimator_kit.observing import curves, histories
from estimator_kit.observing.histories import Evaluation, EvaluationHistory, Measurement
from estimator_kit.observing.measured_export import Flops, Importance, Slices, path_of
from estimator_kit.result import RunResult, read_result
from feature_specs.spec import FeatureSpec

# Variables that only training has: what an optimizer adds to each weight, the sums of `accumulate`,
# and the estimates of `sampled_items`.
_SLOT = re.compile(
    r"^accumulated/|(^|/)(last_step|gap)$|"
    r"/(Adagrad|Adam|Adam_1|Adadelta|Adadelta_1|Ftrl|Ftrl_1|Momentum|RMSProp|RMSProp_1|"
    r"ExponentialMovingAverage)(_\d+)?$"
)


@dataclasses.dataclass(frozen=True)
class Table:
    """A variable of the model.

    Attributes:
      name: its name in the checkpoint, without partitions.
      shape: of the whole variable.
      parameters: how many numbers it holds.
      bytes: its size in the checkpoint.
      is_slot: whether only training needs it, as what an optimizer adds.
    """

    name: str
    shape: tuple[int, ...]
    parameters: int
    is_slot: bool
    bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Numbers:
    """What is known of a run.

    Attributes:
      model_dir: where it was read.
      result: `result.json`.
      spec: the feature spec that the model directory keeps.
      versions: of Python and packages, by name.
      flags: lines of `flags.txt`, without defaults that nobody set.
      evaluations: (step, metrics) by step.
      eval_sets: `{name: [(step, metrics), ...]}` of the other evaluation sets.
      params: the parameters of the model, with defaults.
      curves: `{step: {objective: curve}}` of these evaluations; see `observing.curves`.
      training: entries of `training.jsonl`; see `observing.histories`.
      slices, importance, flops: see `observing.measured_export`; or None.
      tables: variables of the latest checkpoint, the largest first.
    """

    model_dir: str
    result: RunResult
    spec: FeatureSpec
    versions: Mapping[str, str]
    flags: Sequence[str]
    evaluations: Sequence[tuple[int, Mapping[str, Optional[float]]]]
    curves: Mapping[int, Mapping[str, curves.Curve]]
    training: Sequence[Measurement]
    slices: Optional[Slices]
    importance: Optional[Importance]
    flops: Optional[Flops]
    tables: Sequence[Table]
    eval_sets: Mapping[str, Sequence[tuple[int, Mapping[str, Optional[float]]]]] = (
        dataclasses.field(default_factory=dict)
    )
    params: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict)

    @property
    def rows_a_step(self) -> Optional[int]:
        """The rows of a training step in one process, of all its devices together."""
        if self.result.rows_a_step:
            return self.result.rows_a_step
        flags = [line for line in self.flags if line.startswith("--batch_size=")]
        return int(flags[-1].partition("=")[2]) if flags else None

    def series(self, metric: str, eval_set: Optional[str] = None) -> list[tuple[int, float]]:
        """(step, value) of a metric in all evaluations in which it is defined.

        Of the rows that judge, or of another evaluation set.
        """
        evaluations = self.evaluations if eval_set is None else self.eval_sets.get(eval_set, ())
        pairs = [(step, metrics.get(metric)) for step, metrics in evaluations]
        return [
            (step, value) for step, value in pairs if value is not None and math.isfinite(value)
        ]

    @property
    def step(self) -> Optional[int]:
        """Of the evaluation that `result.metrics` and the console show; else of the last one.

        After an early stop, it is the best one.
        """
        steps = [step for step, _ in self.evaluations]
        shown = self.result.metrics.get("global_step")
        if shown is not None and shown in steps:
            return int(shown)
        return steps[-1] if steps else None

    @property
    def metrics(self) -> Mapping[str, Optional[float]]:
        """Of the evaluation at `step`."""
        return self._at_step(self.evaluations)

    @property
    def metrics_of_sets(self) -> Mapping[str, Mapping[str, Optional[float]]]:
        """Of the other evaluation sets at `step`."""
        return {name: self._at_step(each) for name, each in self.eval_sets.items()}

    def _at_step(
        self, evaluations: Sequence[tuple[int, Mapping[str, Optional[float]]]]
    ) -> Mapping[str, Optional[float]]:
        # A run that went on may have several evaluations at a step; the last one counts.
        return dict(evaluations).get(self.step, {}) if self.step is not None else {}


def read(model_dir: str) -> Numbers:
    """The numbers of a model directory.

    Raises:
      ConfigError: no run has ended there, or a file is damaged.
    """
    result = read_result(model_dir)
    folder = os.path.join(model_dir, "feature_spec")
    spec = run_record.kept_spec(folder)
    if result is None or spec is None:
        raise ConfigError(
            f"{model_dir}: expected result.json and feature_spec/spec.json of a training, got "
            "neither or only one of them. Name the --model_dir of a training."
        )
    versions = run_record.Versions.load(os.path.join(model_dir, "versions.json"))
    evaluations = read_evaluations(model_dir)
    by_step = curves.read(model_dir)
    went_back = (result.global_step or 0) > _last_step(model_dir)
    return Numbers(
        model_dir=model_dir,
        result=result,
        spec=spec,
        versions=versions.root if versions is not None else {},
        flags=run_record.read_flags(model_dir),
        evaluations=evaluations,
        curves={step: by_step[step] for step, _ in evaluations if step in by_step},
        training=read_training(model_dir),
        slices=None if went_back else Slices.load(path_of(model_dir, "slices.json")),
        importance=None if went_back else Importance.load(path_of(model_dir, "importance.json")),
        flops=Flops.load(path_of(model_dir, "flops.json")),
        tables=_tables(model_dir),
        eval_sets=_of_sets(model_dir),
        params=run_record.kept_params(model_dir),
    )


def read_evaluations(model_dir: str) -> list[tuple[int, Mapping[str, Optional[float]]]]:
    """(step, metrics) of each evaluation, by step, since what they mean was last changed."""
    return [(entry.global_step, entry.metrics) for entry in _entries(model_dir)]


def _of_sets(model_dir: str) -> dict[str, list[tuple[int, Mapping[str, Optional[float]]]]]:
    """(step, metrics) of the other sets, by name. A set that changed begins with its new rows."""
    sets: dict[str, list[tuple[int, Mapping[str, Optional[float]]]]] = {}
    scores: dict[str, Optional[str]] = {}
    for entry in _entries(model_dir):
        for name, each in entry.eval_sets.items():
            if scores.get(name) != each.scores:
                sets[name] = []
            scores[name] = each.scores
            sets.setdefault(name, []).append((entry.global_step, each.metrics))
    return sets


def _entries(model_dir: str) -> list[Evaluation]:
    last = _last_step(model_dir)
    entries = EvaluationHistory(model_dir).latest()
    return [entry for entry in entries if entry.global_step <= last]


def read_training(model_dir: str) -> list[Measurement]:
    """The entries of `training.jsonl`."""
    last = _last_step(model_dir)
    return [entry for entry in histories.read(model_dir) if entry.step <= last]


def _last_step(model_dir: str) -> float:
    """The step of the latest checkpoint, infinite without one.

    If somebody went back to an earlier checkpoint, what later ones have left is not of this model.
    """
    step = reading.latest_step(model_dir)
    return math.inf if step is None else step


def flags_by_name(lines: Sequence[str]) -> dict[str, list[str]]:
    """The values of each flag: `--noshuffle` is `false` for `shuffle`, `--shuffle` is `true`."""
    flags: dict[str, list[str]] = {}
    for line in lines:
        name, equal, value = line.removeprefix("--").partition("=")
        if not equal:
            value = "true"
            if name.startswith("no") and name[2:] in _names_of_flags():
                name, value = name[2:], "false"
        flags.setdefault(name, []).append(value)
    return flags


@functools.cache
def _names_of_flags() -> frozenset[str]:
    return frozenset(ExperimentConfig.model_fields)


def _tables(model_dir: str) -> list[Table]:
    checkpoint = tf.train.latest_checkpoint(model_dir)
    if checkpoint is None:
        return []
    tables: dict[str, Table] = {}
    dtypes = tf.train.load_checkpoint(checkpoint).get_variable_to_dtype_map()
    for name, shape in tf.train.list_variables(checkpoint):
        if name == "global_step" or (not shape and _SLOT.search(name) is None and "power" in name):
            continue
        count, is_slot = math.prod(shape), _SLOT.search(name) is not None
        tables[name] = Table(name, tuple(shape), count, is_slot, count * dtypes[name].size)
    return sorted(tables.values(), key=lambda table: -table.parameters)
