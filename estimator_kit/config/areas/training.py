"""How long a training takes, what it saves, and how it computes.

Imports no TensorFlow.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.areas.base import Count, PositiveInt, Settings, setting
from estimator_kit.config.areas.exports import (
    Direction,
    Exports,
    better,
    compare_best_metric,
    direction_problem,
)
from estimator_kit.config.areas.program import Program


class Training(Settings):
    """How long a training takes, what it saves, and how it computes."""

    heading: ClassVar[str] = "Training"

    max_steps: Optional[PositiveInt] = setting(
        None,
        "Training ends at this global step, counted over all starts.",
        changes="training",
    )
    epochs: Optional[PositiveInt] = setting(
        None,
        "Training ends when every row was read this many times, counted over all starts. If "
        "you also give --max_steps, training ends at whichever comes first.",
        changes="training",
    )
    batch_size: PositiveInt = setting(
        512,
        "Rows in each training step.",
        changes="training",
    )
    shuffle: bool = setting(
        True,
        "Shuffle the training rows.",
        changes="rows",
    )
    keep_negatives: Optional[str] = setting(
        None,
        "Train on this share of the rows whose label is 0, such as 0.1. If several objectives "
        "are binary, name one: click=0.1. Each epoch keeps other rows, and the same rows if "
        "you train again. A kept row weighs 1 / share in the losses of all objectives, so "
        "predictions stay calibrated. Evaluation reads all rows.",
        changes="rows",
    )
    save_checkpoints_steps: Optional[PositiveInt] = setting(
        None,
        "Steps between two checkpoints.",
        changes="training",
    )
    save_checkpoints_secs: Optional[PositiveInt] = setting(
        None,
        "Seconds between two checkpoints; 600 if neither this flag nor "
        "--save_checkpoints_steps is given.",
        changes="training",
    )
    keep_checkpoint_max: PositiveInt = setting(
        5,
        "How many of the latest checkpoints to keep.",
        changes="nothing",
    )
    eval_throttle_secs: Count = setting(
        0,
        "The fewest seconds between two evaluations; 0 evaluates every checkpoint.",
        changes="training",
    )
    early_stopping_metric: Optional[str] = setting(
        None,
        "Stop when this metric has not improved in --early_stopping_patience evaluations. "
        "Metrics are named <metric>/<objective>, such as auc/click. For your own metric, say "
        "whether a better value is lower or higher: min:name or max:name.",
        changes="training",
    )
    early_stopping_patience: PositiveInt = setting(
        3,
        "How many evaluations without improvement stop the training.",
        changes="training",
    )
    mixed_precision: Optional[Literal["bfloat16", "float16"]] = setting(
        None,
        "Training multiplies the matrices of dense layers in this type. Variables, tables, losses "
        "and metrics stay float32, and evaluation, prediction and exports compute in float32. It "
        "pays on a GPU, or on a CPU with AMX.",
        changes="training",
    )
    xla: Literal["on", "off"] = setting(
        "off",
        "on: training compiles the dense part of the model with XLA. Lookups in tables stay "
        "outside. Evaluation, prediction and exports are not compiled.",
        changes="nothing",
    )

    @property
    def early_stopping_direction(self) -> Optional[Direction]:
        """Whether a better `early_stopping_metric` is lower or higher."""
        return better(self.early_stopping_metric) if self.early_stopping_metric else None


def problems(training: Training, program: Program, exports: Exports) -> list[str]:
    """What does not go together in the length and the checkpoints of a training."""
    lines = []
    if training.save_checkpoints_steps is not None and training.save_checkpoints_secs is not None:
        lines.append(
            "--save_checkpoints_steps and --save_checkpoints_secs do not go together. Give one of "
            "them."
        )
    by_clock = program.deterministic and training.save_checkpoints_steps is None
    if by_clock and training.early_stopping_metric is not None:
        lines.append(
            "--deterministic with --early_stopping_metric needs --save_checkpoints_steps. "
            "Checkpoints that are saved by the clock would stop each training at another step."
        )
    return lines + _direction_problems(training, exports)


def _direction_problems(training: Training, exports: Exports) -> list[str]:
    """Metrics of which nobody says whether a better value is lower or higher."""
    lines = []
    if training.early_stopping_metric is not None:
        lines += direction_problem("early_stopping_metric", training.early_stopping_metric)
    if compare_best_metric(exports.exporter_names):
        lines += direction_problem("best_metric", exports.best_metric)
    return lines
