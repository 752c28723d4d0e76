"""The names of tensors, metrics and signatures of a model's graphs, for hooks and exporters.

It never makes a graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Tensors that hooks fetch by name from the graphs of training and evaluation.
ROWS_TENSOR = "estimator_kit/rows"
LOSS_TENSOR = "estimator_kit/loss"
LOSSES_SCOPE = "estimator_kit/losses"  # One tensor an objective; only in training.

# The signature with the predictions of all objectives.
PREDICT_EXAMPLES = "predict_examples"

# The signature with one tensor for each feature.
PREDICT_RAW = "predict_raw"

# The metric that replaces the `loss` of Estimator. See `read_metrics`.
TOTAL_LOSS = "total_loss"


def read_metrics(evaluation: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of `Estimator.evaluate` as floats. `loss` is over rows instead of batches."""
    metrics = {name: float(value) for name, value in evaluation.items()}
    metrics["loss"] = metrics.pop(TOTAL_LOSS, metrics["loss"])
    return metrics
