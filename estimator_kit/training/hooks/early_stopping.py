"""Early stopping: training ends when a metric no longer improves.

It reads the evaluations from the model directory's history, so a restart changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from estimator_kit.config.areas.exports import metric_of
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.exporters.best import is_better
from estimator_kit.observing.evaluation_history import Evaluation


def stops(config: ModelDirConfig, evaluations: Sequence[Evaluation]) -> bool:
    """Whether a training ends after these evaluations, by its --early_stopping_... flags."""
    metric, direction = config.early_stopping_metric, config.early_stopping_direction or "min"
    return metric is not None and has_stalled(
        evaluations, metric_of(metric), direction, config.early_stopping_patience
    )


def has_stalled(
    evaluations: Sequence[Evaluation], metric: str, direction: str, patience: int
) -> bool:
    """Whether none of the last `patience` evaluations is better than the best one before them.

    For the values 3, 2, 2, 2 and the direction `min`, training has stalled with a patience of 2,
    but not with a patience of 3.

    Args:
      evaluations: the entries of the evaluation history, ordered by step.
      metric: the metric to compare. A missing value or NaN is never better.
      direction: `min` or `max`.
      patience: 1 or more.
    """
    best = math.nan
    since = 0
    for evaluation in evaluations:
        value = evaluation.metrics.get(metric)
        if value is not None and is_better(value, best, direction):
            best, since = value, 0
        elif math.isfinite(best):  # Training cannot stall before the first value.
            since += 1
    return since >= patience
