"""The intervals of the metrics of candidate and live model, for the history page.

The gate needs the interval of their difference alone (`gate`). These intervals say how much each
value itself would vary on other rows of the same days. The module takes arrays, and writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from estimator_kit.model.heads import row_metric, row_metrics
from estimator_kit.retraining.gate import Scored
from estimator_kit.scoring import slices
from feature_specs.sections.retraining import MODEL_METRICS, Gate

# Enough to draw an interval. The gate may draw more.
_SAMPLES = 100

Interval = tuple[float, float]


def of_conditions(
    gate: Gate, scored: Mapping[str, Scored], features: Mapping[str, NDArray]
) -> dict[str, dict[str, Interval]]:
    """`{"auc/click": {"candidate": (low, high), "live": (low, high)}}`, for metrics in conditions.

    An interval that is undefined is left out.

    Args:
      gate: the conditions, and the options of the bootstrap.
      scored: the rows and predictions by objective.
      features: the values [rows] of the feature for groups.
    """
    options = gate.bootstrap
    groups = None
    if options.group_by is not None:
        groups = np.unique(features[options.group_by], return_inverse=True)[1].reshape(-1)
    metrics = dict.fromkeys(condition.metric for condition in gate.conditions or ())
    found: dict[str, dict[str, Interval]] = {}
    for metric in metrics:
        name, _, objective = metric.partition("/")
        if metric in MODEL_METRICS:
            continue
        rows = scored[objective]
        for whose, predictions in (("candidate", rows.candidate), ("live", rows.live)):
            if predictions is None or row_metrics.not_finite(predictions):
                continue
            interval = slices.difference(
                row_metric(name, rows.head, rows.labels, predictions, rows.weights).value,
                lambda counts: 0.0,
                rows=len(rows.labels),
                groups=groups,
                samples=min(options.samples, _SAMPLES),
                confidence=options.confidence,
                seed=options.seed,
            )
            if not math.isnan(interval.low):
                found.setdefault(metric, {})[whose] = (interval.low, interval.high)
    return found
