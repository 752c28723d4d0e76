"""Early stopping: training ends when a metric has stopped getting better.

Looks at the evaluations in the model directory's history, so that a restart neither forgets nor
repeats what it had seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from estimator_kit.exporters.best import is_better


def has_stalled(
    evaluations: Sequence[dict[str, Any]], metric: str, direction: str, patience: int
) -> bool:
    """Whether the last `patience` evaluations have not improved on the best one before them.

    Args:
      evaluations: entries of the evaluation history, by step.
      metric: whose values are compared; one that is missing or NaN never improves.
      direction: `min` or `max`.
      patience: 1 or more.

    With values 3, 2, 2, 2, direction min: stalled for a patience of 2, not for one of 3.
    """
    best = math.nan
    since = 0
    for evaluation in evaluations:
        value = evaluation["metrics"].get(metric)
        if value is not None and is_better(value, best, direction):
            best, since = value, 0
        elif math.isfinite(best):  # Until there is a value, nothing can have stalled.
            since += 1
    return since >= patience
