"""How much is evaluated, and when a metric ends training."""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.settings.base import Count, PositiveInt, Settings, setting


class EvaluationSettings(Settings):
    """How much is evaluated, and when a metric ends training."""

    heading: ClassVar[str] = "Evaluation"

    eval_batch_size: PositiveInt = setting(
        2048,
        "Rows a step of evaluation and prediction.",
    )
    eval_steps: Optional[PositiveInt] = setting(
        None,
        "Batches an evaluation; all of --eval_files when not given.",
    )
    eval_name: str = setting(
        "evaluate",
        "With --mode=evaluate: what the evaluation is called. Its numbers are kept in "
        "evaluation-<name>.json in --model_dir, and for TensorBoard in the folder eval_<name> "
        "(those of an export in the file alone). A later evaluation of the same name takes the "
        "place of the file; one of an export never takes that of a checkpoint's.",
    )
    eval_throttle_secs: Count = setting(
        0,
        "Least seconds between evaluations; 0 is every checkpoint.",
    )
    early_stopping_metric: Optional[str] = setting(
        None,
        "Stop when this metric has not improved for --early_stopping_patience evaluations. "
        "Metrics are named <metric>/<objective>, as in auc/click.",
    )
    early_stopping_direction: Optional[Literal["min", "max"]] = setting(
        None,
        "Which way that metric gets better; losses do by min, and others need it said.",
    )
    early_stopping_patience: PositiveInt = setting(
        3,
        "Evaluations without improvement before the stop.",
    )
