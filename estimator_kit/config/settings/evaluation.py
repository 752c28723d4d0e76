"""How much is evaluated, and when a metric ends the training."""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.settings.base import Count, PositiveInt, Settings, setting


class EvaluationSettings(Settings):
    """How much is evaluated, and when a metric ends the training."""

    heading: ClassVar[str] = "Evaluation"

    eval_batch_size: PositiveInt = setting(
        2048,
        "Rows in each step of evaluation and prediction.",
        changes="scores",
    )
    eval_steps: Optional[PositiveInt] = setting(
        None,
        "Batches in each evaluation; by default all of --eval_files.",
        changes="scores",
    )
    eval_name: str = setting(
        "evaluate",
        "The name of the evaluation. Its metrics are written to evaluation-<name>.json in "
        "--model_dir, and for TensorBoard to the folder eval_<name> (the metrics of an export "
        "only to the file). A later evaluation with the same name replaces the file, but the "
        "evaluation of an export never replaces the file of a checkpoint.",
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
        "Metrics are named <metric>/<objective>, such as auc/click.",
        changes="training",
    )
    early_stopping_direction: Optional[Literal["min", "max"]] = setting(
        None,
        "Whether a better --early_stopping_metric is lower (min) or higher (max). Required for "
        "every metric except a loss.",
        changes="training",
    )
    early_stopping_patience: PositiveInt = setting(
        3,
        "How many evaluations without improvement stop the training.",
        changes="training",
    )
