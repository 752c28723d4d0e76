"""Everything that the report page shows, read from the files of a model directory.

    numbers = read("runs/ads")
    numbers.series("auc/click")     # [(step, value), ...]

It only reads: no graph is built, no data file is opened, and nothing is computed that an evaluation
should have written. A part that a run did not write is empty, and the page leaves its section out.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import storage
from estimator_kit.checkpoints import run_record
from estimator_kit.errors import ConfigError
from estimator_kit.observing import curves, training_log
from estimator_kit.observing.evaluation_history import EvaluationHistory
from estimator_kit.result_file import read_result
from feature_specs.spec import FeatureSpec

# Endings of the variables that an optimizer adds to each weight.
_SLOT = re.compile(
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
      is_slot: whether the optimizer added it.
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
      document: the same, as its JSON file holds it.
      versions: of Python and packages, by name.
      flags: lines of `flags.txt`, without defaults that nobody set.
      evaluations: (step, metrics) by step.
      curves: `{step: {objective: curve}}`; see `observing.curves`.
      training: entries of `training.jsonl`; see `observing.training_log`.
      slices, importance, flops: as `slices.json`, `importance.json` and `flops.json` hold them, or
        None.
      tables: variables of the latest checkpoint, the largest first.
    """

    model_dir: str
    result: Mapping[str, Any]
    spec: FeatureSpec
    document: Mapping[str, Any]
    versions: Mapping[str, str]
    flags: Sequence[str]
    evaluations: Sequence[tuple[int, Mapping[str, float]]]
    curves: Mapping[int, Mapping[str, Any]]
    training: Sequence[Mapping[str, Any]]
    slices: Optional[Mapping[str, Any]]
    importance: Optional[Mapping[str, Any]]
    flops: Optional[Mapping[str, Any]]
    tables: Sequence[Table]

    @property
    def batch_size(self) -> Optional[int]:
        """The rows of a training step in one process."""
        given = [line for line in self.flags if line.startswith("--batch_size=")]
        return int(given[-1].partition("=")[2]) if given else None

    def series(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) of a metric in all evaluations in which it is defined."""
        pairs = [(step, metrics.get(metric)) for step, metrics in self.evaluations]
        return [
            (step, value) for step, value in pairs if value is not None and math.isfinite(value)
        ]

    @property
    def metrics(self) -> Mapping[str, float]:
        """Of the last evaluation."""
        return self.evaluations[-1][1] if self.evaluations else {}


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
    observed = os.path.join(model_dir, "observed")
    return Numbers(
        model_dir=model_dir,
        result=result,
        spec=spec,
        document=storage.read_json(os.path.join(folder, "spec.json"), dict[str, Any]) or {},
        versions=storage.read_json(os.path.join(model_dir, "versions.json"), dict[str, str]) or {},
        flags=read_flags(model_dir),
        evaluations=read_evaluations(model_dir),
        curves=curves.read(model_dir),
        training=training_log.read(model_dir),
        slices=storage.read_json(os.path.join(observed, "slices.json"), dict[str, Any]),
        importance=storage.read_json(os.path.join(observed, "importance.json"), dict[str, Any]),
        flops=storage.read_json(os.path.join(observed, "flops.json"), dict[str, Any]),
        tables=_tables(model_dir),
    )


def read_flags(model_dir: str) -> list[str]:
    """The lines of `flags.txt`. Empty if the run has not begun."""
    path = os.path.join(model_dir, "flags.txt")
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.startswith("--")]


def read_evaluations(model_dir: str) -> list[tuple[int, Mapping[str, float]]]:
    """(step, metrics) of each evaluation, by step."""
    entries = EvaluationHistory(model_dir).read()
    return [(entry["global_step"], entry["metrics"]) for entry in entries]


def _tables(model_dir: str) -> list[Table]:
    checkpoint = tf.train.latest_checkpoint(model_dir)
    if checkpoint is None:
        return []
    found: dict[str, Table] = {}
    dtypes = tf.train.load_checkpoint(checkpoint).get_variable_to_dtype_map()
    for name, shape in tf.train.list_variables(checkpoint):
        if name == "global_step" or (not shape and _SLOT.search(name) is None and "power" in name):
            continue
        count, is_slot = math.prod(shape), _SLOT.search(name) is not None
        found[name] = Table(name, tuple(shape), count, is_slot, count * dtypes[name].size)
    return sorted(found.values(), key=lambda table: -table.parameters)
