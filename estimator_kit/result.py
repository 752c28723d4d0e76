"""`result.json`: what a run did. `ek.run` returns the same as a `RunResult`.

    result = read_result("runs/ads")
    result.metrics["auc/click"]     # 0.795

Imports no TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, Optional, Union

import pydantic

from estimator_kit.config.areas.exports import EXPORTERS
from feature_specs.files import documents

# Why a training ended; see `RunResult.stop_reason`.
MAX_STEPS, INPUT_EXHAUSTED, ALREADY_DONE = "max_steps", "input_exhausted", "already_done"
EARLY_STOPPED, SIGTERM, HOOK = "early_stopped", "sigterm", "stopped_by_hook"


class InputProfile(documents.Part):
    """How long training steps waited for input; empty without --profile.

    Attributes:
      steps: how many steps the trace covers.
      seconds_a_step: how long a step took.
      share_waiting: the share of the step time, from 0 to 1.
      busy_seconds: for each stage, the sum over all threads.
      busiest: the stage with the most work. None if the trace has no input.
      advice: what would make the input faster.
      trace: the folder of the trace.
    """

    steps: int = 0
    seconds_a_step: float = 0.0
    share_waiting: Optional[float] = None
    busy_seconds: Mapping[str, float] = {}
    busiest: Optional[str] = None
    advice: str = ""
    trace: Optional[str] = None


class EvalSet(documents.Part):
    """An evaluation of another set of --eval_files, at the step of an evaluation.

    Attributes:
      rows: how many rows were evaluated.
      metrics: as the metrics of a run.
      scores: a digest of what the metrics mean.
    """

    rows: int
    metrics: Mapping[str, Optional[float]]
    scores: Optional[str] = None

    @classmethod
    def of(cls, metrics: Mapping[str, float], scores: Optional[str] = None) -> EvalSet:
        return cls(rows=int(metrics["rows"]), metrics=metrics, scores=scores)


class BestEvaluation(documents.Part):
    """The evaluation of a training with the best value of --best_metric.

    Attributes:
      metric: the name of the metric.
      global_step: the step of its checkpoint.
      metrics: its metrics.
      eval_sets: the other sets at this step, by name.
    """

    metric: str
    global_step: int
    metrics: Mapping[str, Optional[float]]
    eval_sets: Mapping[str, EvalSet] = {}


# Which is better, as far as the evaluation rows show: `none` if they show no difference.
Verdict = Literal["reference", "model", "none", "undefined"]


class ReferenceModel(documents.Part):
    """A reference model of one objective, compared with the model; see --reference_models.

    Attributes:
      metrics: its metrics, on the evaluation rows of the comparison.
      difference: the first metric of the reference minus the first metric of the model.
      low, high: the 95 % interval of the difference, from the chance of the evaluation rows.
      verdict: which one is better: `reference`, `model`, `none` if the interval contains 0, or
        `undefined` if the metric is.
      seconds: what it took to train and to predict.
      error: why it could not be trained; then the other values are empty.
    """

    metrics: Mapping[str, Optional[float]] = {}
    difference: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None
    verdict: Verdict = "undefined"
    seconds: float = 0.0
    error: Optional[str] = None


class ComparedObjective(documents.Part):
    """An objective of the model, compared with reference models.

    Attributes:
      metric: the metric that is compared, such as auc.
      larger_is_better: whether a better value of the metric is larger.
      model: the metrics of the model, on the same rows.
      references: the reference models, by the names in --reference_models.
      error: why it has no reference models, for example because of its head.
    """

    metric: Optional[str] = None
    larger_is_better: bool = True
    model: Mapping[str, Optional[float]] = {}
    references: Mapping[str, ReferenceModel] = {}
    error: Optional[str] = None


class ReferenceModels(documents.Part):
    """How good the model is, compared with reference models; see --reference_models.

    Attributes:
      export: the SavedModel of the model that is compared.
      eval_set: the evaluation rows: `--eval_files`, or `--eval_files, set test`.
      train_rows: the rows that the reference models learned from.
      train_rows_of: how many rows the training files have. If it is more, a sample was read.
      eval_rows, eval_rows_of: the same for the rows of the comparison.
      seconds: what all of it took.
      objectives: the comparison of each objective.
      error: why nothing was compared.
    """

    export: Optional[str] = None
    eval_set: str = "--eval_files"
    train_rows: int = 0
    train_rows_of: int = 0
    eval_rows: int = 0
    eval_rows_of: int = 0
    seconds: float = 0.0
    objectives: Mapping[str, ComparedObjective] = {}
    error: Optional[str] = None


class RunResult(documents.Document):
    """What a run did.

    Attributes:
      mode: the mode it ran in.
      status: `running`, `done`, `stopped` (by SIGTERM or a hook of the model) or `failed`.
      stop_reason: why training ended: `max_steps`, `input_exhausted` (all epochs are done),
        `already_done` (an earlier start had finished), `early_stopped`, `sigterm`, or
        `stopped_by_hook` (a hook of the model asked TensorFlow to stop before the last step).
      global_step: the step of the latest checkpoint.
      metrics: the metrics of the latest evaluation; after an early stop, of the evaluation with the
        best --best_metric, which the exporter `best` exports. NaN is None if it was read from a
        file.
      eval_sets: the other sets of --eval_files at the step of `metrics`, by name.
      best: the best evaluation of a training by --best_metric. The export of the exporter `best` is
        of its step. None without an evaluation.
      exports: the SavedModel of each exporter.
      export_path: the export to serve: the final one, else the best, else the latest. After an
        early stop the best one comes first, because the steps after it made the model worse.
      examples_per_second: the speed of training in this start, without evaluations and exports.
      rows_a_step: the most rows of a training step of this process, of all its devices.
      rows_trained: how many rows this start trained on.
      rows_lost: how many rows of the epochs were lost with a worker of --data_service.
      steps_planned: the global step at which training was to end.
      input_profile: with --profile; else it is empty.
      profile: with --profile, see `observing.profile.costs.analyze`.
      rows_evaluated: how many rows the latest evaluation read.
      rows_selected: with a filter or negative down-sampling, the rows `read`, `kept` and `dropped`
        of the `train` files (in the first epoch) and of the `eval` files.
      input_cache: the files whose transformed rows the cache had (`hits`), the other files
        (`misses`), the rows that were stored, and the stored files that were removed to make room
        (`evicted`). Empty without a cache.
      error: what went wrong, for `failed`.
      task: the task in a cluster, such as `worker:0`; None for a process that trains alone. The
        chief writes `result.json`; the evaluator adds metrics and exports to it.
      metrics_left_out: for an evaluation of an export, the metrics that only an evaluation of a
        checkpoint has, and why.
      scores: a digest of what the metrics mean; metrics with the same digest can be compared.
      bad_data: the bad records and files, if the run may leave them out or --mode=check_data ran.
      reference_models: with --reference_models, how the model compares with them; see
        `ReferenceModels`.
    """

    mode: str
    status: str = "done"
    stop_reason: Optional[str] = None
    global_step: Optional[int] = None
    metrics: Mapping[str, Optional[float]] = {}
    eval_sets: Mapping[str, EvalSet] = {}
    best: Optional[BestEvaluation] = None
    exports: Mapping[str, str] = {}
    examples_per_second: Optional[float] = None
    rows_a_step: Optional[int] = None
    rows_trained: int = 0
    rows_lost: int = 0
    steps_planned: Optional[int] = None
    input_profile: InputProfile = InputProfile()
    profile: Mapping[str, pydantic.JsonValue] = {}
    rows_evaluated: int = 0
    rows_selected: Mapping[str, dict[str, int]] = {}
    input_cache: Mapping[str, Union[int, float]] = {}
    error: Optional[str] = None
    bad_data: Mapping[str, pydantic.JsonValue] = {}
    metrics_left_out: Mapping[str, str] = {}
    task: Optional[str] = None
    scores: Optional[str] = None
    reference_models: Optional[ReferenceModels] = None

    def model_post_init(self, context: object) -> None:
        self.model_fields_set.update(RunResult.model_fields)  # The file has all of them.

    @property
    def export_path(self) -> Optional[str]:
        ranks = {name: kind.served for name, kind in EXPORTERS.items() if name in self.exports}
        if self.stop_reason == EARLY_STOPPED and "best" in ranks:
            ranks["best"] = 0
        served = [(rank, name) for name, rank in ranks.items() if rank is not None]
        return self.exports[min(served)[1]] if served else None

    def as_json(self) -> Any:
        return {**super().as_json(), "export_path": self.export_path}


class EvaluationResult(RunResult):
    """`evaluation-<eval_name>.json`: what --mode=evaluate did.

    Attributes:
      eval_name: the name of the evaluation.
      eval_files: what it read.
      checkpoint: what it evaluated; None for an export.
      export_dir, spec: for an export, its path and the spec.
    """

    eval_name: str
    eval_files: list[str]
    checkpoint: Optional[str] = None
    export_dir: Optional[str] = None
    spec: Optional[str] = None


def read_result(model_dir: str) -> Optional[RunResult]:
    """The result of the last run in a model directory, or None if the directory has no result.

    Raises:
      ConfigError: the file is damaged.
    """
    return RunResult.load(result_path(model_dir))


def result_path(model_dir: str) -> str:
    """The file of the last run in a model directory."""
    return os.path.join(model_dir, "result.json")


def evaluation_path(model_dir: str, eval_name: str) -> str:
    """The file of an evaluation by `--mode=evaluate`."""
    return os.path.join(model_dir, f"evaluation-{eval_name}.json")
