"""The labels and the metrics of multi_label_head, which has the names of TensorFlow 1.15."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import lookup_ops
from tensorflow_estimator.python.estimator.canned import head as head_lib
from tensorflow_estimator.python.estimator.canned.metric_keys import MetricKeys


def metrics_of(
    head: Optional[str],
    spec: Any,
    probabilities: Any,
    regularization: Any,
    thresholds: Sequence[float],
    classes: Mapping[int, str],
) -> dict[str, Any]:
    """The metrics of the head named `head`; `classes` have separate metrics."""
    labels, weights = spec.processed_labels, spec.weights
    keys = MetricKeys
    made = {
        keys.LOSS_MEAN: tf.metrics.mean(spec.unreduced_loss, weights),
        keys.AUC: tf.metrics.auc(labels, probabilities, weights),
        keys.AUC_PR: tf.metrics.auc(labels, probabilities, weights, curve="PR"),
    }
    if regularization is not None:
        made[keys.LOSS_REGULARIZATION] = tf.metrics.mean(regularization)
    for threshold in thresholds:
        for key, metric in (
            (keys.ACCURACY_AT_THRESHOLD, head_lib._accuracy_at_threshold),
            (keys.PRECISION_AT_THRESHOLD, head_lib._precision_at_threshold),
            (keys.RECALL_AT_THRESHOLD, head_lib._recall_at_threshold),
        ):
            made[key % threshold] = metric(labels, probabilities, weights, threshold)
    for place, name in classes.items():
        of_class = slice(place, place + 1)
        mine, truth = probabilities[..., of_class], labels[..., of_class]
        made[f"probability_mean/{name}"] = head_lib._predictions_mean(mine, weights)
        made[f"auc/{name}"] = head_lib._auc(truth, mine, weights)
        made[f"auc_precision_recall/{name}"] = head_lib._auc(truth, mine, weights, "PR")
    return {head_lib._summary_key(head, key): metric for key, metric in made.items()}


def indicators(labels: Any, n_classes: int, vocabulary: Sequence[str]) -> Any:
    """Labels as 0 or 1 for each class [batch, n_classes]."""
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Check that input_fn returns labels."
        )
    if not isinstance(labels, tf.SparseTensor):
        message = "labels must be an integer indicator Tensor with values in [0, 1]"
        return head_lib._assert_range(labels, 2, message=message)
    values = labels.values
    if values.dtype == tf.string:
        table = lookup_ops.index_table_from_tensor(list(vocabulary), name="class_id_lookup")
        values = table.lookup(values)
    message = f"labels must be an integer SparseTensor with values in [0, {n_classes})"
    values = head_lib._assert_range(values, n_classes, message=message)
    places = tf.SparseTensor(labels.indices, values, labels.dense_shape)
    return tf.cast(tf.sparse.to_indicator(places, n_classes), tf.int64)
