"""The losses and metrics of all objectives of a model, computed from their logits.

The evaluation of a model and the scoring of an export both use this module, so that both report the
same metrics. Name scopes make the graph readable in TensorBoard.

A comparison with NaN is false, so a NaN score would have the best rank, and sorting it would have
no defined result. Here, once and for all heads, a row with a weight whose logits contain NaN makes
all metrics of its objective NaN that depend on predictions. The logits of a row without weight are
taken as 0, so whatever they are, they change no metric.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.heads import streaming, together
from estimator_kit.model.heads.base import Batch, Head
from estimator_kit.model.heads.item_metrics import NO_STEP
from estimator_kit.model.heads.streaming import Metric, also_updating, streaming_sum
from feature_specs.heads import METRICS

# Metrics that do not depend on predictions. All others are NaN if a row has a NaN prediction.
_WITHOUT_PREDICTIONS = {name for name, kind in METRICS.items() if not kind.reads_predictions}


def dense_labels(labels: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """The labels of an input_fn, with lists of items as int64 [rows, steps], padded with NO_STEP.

    Transforms return lists as RaggedTensors, because the cache of rows cannot store padding.
    """
    return {
        name: value.to_tensor(NO_STEP) if isinstance(value, tf.RaggedTensor) else value
        for name, value in labels.items()
    }


def losses_of(
    heads: Mapping[str, Head],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
    *,
    apart: bool = False,
) -> dict[str, tf.Tensor]:
    """The scalar loss of a batch, by objective. `metrics_of` describes the other arguments.

    Args:
      apart: whether each loss has separate ops. Otherwise, the gradient of one loss with respect to
        the logits of another objective is 0 instead of None.
    """
    batches = _batches(heads, logits, labels, weights)
    losses = {}
    for group in together.groups_of(heads, batches, apart=apart):
        with tf.name_scope(f"objectives/{group.scope}/loss"):
            losses.update(together.losses_of(group))
    return {name: losses[name] for name in heads}


def means_of(
    heads: Mapping[str, Head],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
    """`Head.batch_means`, by `<mean>/<objective>`. `metrics_of` describes the arguments."""
    means = {}
    for group in together.groups_of(heads, _batches(heads, logits, labels, weights)):
        with tf.name_scope(f"objectives/{group.scope}/means"):
            means.update(together.means_of(group))
    return means


def _batches(
    heads: Mapping[str, Head],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> dict[str, Batch]:
    batches = {}
    for name, head in heads.items():
        label = head.label_name
        batches[name] = Batch(
            logits[name],
            labels[label],
            weights[name],
            labels.get(f"{label}/true_probability"),
            labels.get(f"{label}/group"),
            labels.get(f"{label}/seen"),
        )
    return batches


def metrics_of(
    heads: Mapping[str, Head],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> dict[str, Metric]:
    """The streaming metrics, by the name `<metric>/<objective>`.

    Args:
      heads: the heads of the objectives, by name.
      logits: the logits of each objective, float32 [rows, logits_dimension].
      labels: the labels that `Transform.features_and_labels` returns, after `dense_labels`.
      weights: the weights of each objective, from `weights_of`.

    Returns:
      The metrics. If a row with a weight has a NaN logit, they are NaN, except for the metrics in
      `METRICS` that do not read predictions.
    """
    by_objective: dict[str, dict[str, Metric]] = {}
    for group in together.groups_of(heads, _batches(heads, logits, labels, weights)):
        by_objective.update(together.metrics_of(group, _metrics))
    return {f"{key}/{name}": metric for name in heads for key, metric in by_objective[name].items()}


def _metrics(head: Head, batch: Batch) -> dict[str, Metric]:
    """The metrics of one objective."""
    weighted = _weighted(head, batch.logits, batch.weights)
    broken, update = streaming_sum(_count_nan(weighted), "nan_logits")
    without_nan = tf.where(tf.math.is_nan(weighted), 0.0, weighted)
    metrics = head.metrics(batch._replace(logits=without_nan))
    streaming.change(head.name, functools.partial(_or_nan, broken))
    return {
        key: metric if key in _WITHOUT_PREDICTIONS else (_or_nan(broken, metric[0]), metric[1])
        for key, metric in also_updating(metrics, update).items()
    }


def nan_logits(
    heads: Mapping[str, Head],
    logits: Mapping[str, tf.Tensor],
    labels: Mapping[str, tf.Tensor],
    weights: Mapping[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
    """The number of logits of a batch that are NaN, in rows or steps with a weight: float64.

    `metrics_of` describes the arguments.
    """
    result = {}
    for group in together.groups_of(heads, _batches(heads, logits, labels, weights)):
        if len(group.heads) == 1:
            batch = group.batches[group.name]
            result[group.name] = _count_nan(_weighted(group.head, batch.logits, batch.weights))
            continue
        all_logits, _, all_weights = group.rows()
        weighted = _weighted(group.head, all_logits, tf.reshape(all_weights, [-1]))
        result.update(group.named(_count_nan(group.by_row(weighted), axis=1)))
    return result


def _count_nan(values: tf.Tensor, axis: Optional[int] = None) -> tf.Tensor:
    return tf.math.count_nonzero(tf.math.is_nan(values), axis, dtype=tf.float64)


def _weighted(head: Head, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The logits, with 0 in rows and steps without weight."""
    steps = 1 if weights.shape.rank == 1 else int(weights.shape[1])
    by_step = tf.reshape(logits, [-1, head.logits_dimension // steps])
    counts = tf.not_equal(tf.reshape(weights, [-1, 1]), 0)
    weighted = tf.where(counts, by_step, tf.zeros_like(by_step))
    return tf.ensure_shape(tf.reshape(weighted, tf.shape(logits)), logits.shape)


def _or_nan(broken: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    nan = tf.constant(float("nan"), value.dtype)
    return tf.where(broken > 0, nan, value)


def weights_of(heads: Mapping[str, Head], labels: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The weights by objective, float32 [rows]. They are 1 if the label has no weight.

    A label may have steps. Then the weights may have them, too: float32 [rows, steps].
    """
    result = {}
    ones: Optional[tf.Tensor] = None
    for name, head in heads.items():
        weights = labels.get(f"{head.label_name}/weight")
        if weights is None and ones is None:
            # A label may be a vector, but a weight is one number per row.
            ones = tf.ones(tf.shape(labels[head.label_name])[:1], tf.float32)
        result[name] = ones if weights is None else weights
    return result
