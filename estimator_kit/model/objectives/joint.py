"""The losses and metrics of all objectives of a model, computed from their logits.

The evaluation of a model and the scoring of an export both use this module, so that both report the
same metrics. Name scopes make the graph readable in TensorBoard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_kit.model.objectives.base import Objective
from estimator_kit.model.objectives.item_ranks import NO_STEP
from estimator_kit.model.objectives.streaming import Metric


def dense_labels(labels: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """The labels of an input_fn, with lists of items as int64 [rows, steps], padded with NO_STEP.

    Transforms return lists as RaggedTensors, because the cache of rows cannot store padding.
    """
    return {
        name: value.to_tensor(NO_STEP) if isinstance(value, tf.RaggedTensor) else value
        for name, value in labels.items()
    }


def losses_of(
    objectives: Mapping[str, Objective],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
    """The scalar loss of a batch, by objective. `metrics_of` describes the arguments."""
    losses = {}
    for name, objective in objectives.items():
        label = objective.label_name
        with tf.name_scope(f"objectives/{name}/loss"):
            losses[name] = objective.loss(
                logits[name], labels[label], weights[name], labels.get(f"{label}/group")
            )
    return losses


def metrics_of(
    objectives: Mapping[str, Objective],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> dict[str, Metric]:
    """The streaming metrics, by the name `<metric>/<objective>`.

    Args:
      objectives: the objectives by name.
      logits: the logits of each objective, float32 [rows, logits_dimension].
      labels: the labels that `Transform.features_and_labels` returns, after `dense_labels`.
      weights: the weights of each objective, from `weights_of`.
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
                **({"seen": labels[f"{label}/seen"]} if f"{label}/seen" in labels else {}),
            )
        result.update({f"{key}/{name}": metric for key, metric in metrics.items()})
    return result


def weights_of(objective: Objective, labels: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """float32 [rows], the weights of an objective. They are 1 if the label has no weight."""
    label = objective.label_name
    if f"{label}/weight" in labels:
        return labels[f"{label}/weight"]
    # A label may be a vector, but a weight is one number per row.
    return tf.ones(tf.shape(labels[label])[:1], tf.float32)
