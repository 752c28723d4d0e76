"""The metrics of all objectives of a model, from their logits: those of an evaluation.

A model's evaluation and that of an export call it, so that both have the same metrics.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from estimator_kit.model.objectives.base import Objective
from estimator_kit.model.objectives.streaming import Metric


def metrics_of(
    objectives: Mapping[str, Objective],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> dict[str, Metric]:
    """Streaming metrics, `<metric>/<objective>`.

    Args:
      objectives: by name.
      logits: of each objective, float32 [rows, logits_dimension].
      labels: as `Transform.features_and_labels` gives them.
      weights: of each objective, as `weights_of` gives them.
    """
    result: dict[str, Metric] = {}
    for name, objective in objectives.items():
        label = objective.label_name
        with tf.compat.v1.variable_scope(f"metrics/{name}"):
            metrics = objective.metrics(
                logits[name],
                labels[label],
                weights[name],
                labels.get(f"{label}/true_probability"),
                labels.get(f"{label}/group"),
            )
        result.update({f"{key}/{name}": metric for key, metric in metrics.items()})
    return result


def weights_of(objective: Objective, labels: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """float32 [rows]; 1 where the label has no weight."""
    label = objective.label_name
    if f"{label}/weight" in labels:
        return labels[f"{label}/weight"]
    # A label may be a vector; a weight is one number a row.
    return tf.ones(tf.shape(labels[label])[:1], tf.float32)
