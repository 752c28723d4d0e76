"""multi_label_head of tf.contrib.estimator: each example may have any number of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.canned import head as head_lib
from tensorflow_estimator.python.estimator.canned.metric_keys import MetricKeys

from ._estimator_labels import indicators, metrics_of
from ._estimator_multi_head import minimize

_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE


def multi_label_head(
    n_classes: int,
    weight_column: Any = None,
    thresholds: Optional[Sequence[float]] = None,
    label_vocabulary: Optional[Sequence[str]] = None,
    loss_reduction: str = _MEAN,
    loss_fn: Optional[Callable[..., Any]] = None,
    classes_for_class_based_metrics: Optional[Sequence[Any]] = None,
    name: Optional[str] = None,
) -> Any:
    """A head with a sigmoid for each class. The loss is the mean over the classes.

    Labels are 0 or 1 for each class [batch, n_classes], or a SparseTensor of class numbers or of
    the strings of `label_vocabulary`.
    """
    if not n_classes or n_classes < 2:
        raise ValueError(
            f"n_classes must be > 1 for multi-class classification. Given: {n_classes}"
        )
    if label_vocabulary is not None and len(label_vocabulary) != n_classes:
        raise ValueError(
            f"Length of label_vocabulary must be n_classes ({n_classes}). "
            f"Given: {len(label_vocabulary)}"
        )
    vocabulary = list(label_vocabulary or [])
    classes = [
        vocabulary.index(c) if c in vocabulary else c for c in classes_for_class_based_metrics or []
    ]
    for place in classes:
        if not isinstance(place, int) or not 0 <= place < n_classes:
            raise ValueError(
                "All classes_for_class_based_metrics must be in range "
                f"[0, {n_classes - 1}]. Given: {place}"
            )
    return _MultiLabelHead(
        n_classes, weight_column, tuple(thresholds or ()), vocabulary, loss_reduction, loss_fn,
        classes, name,
    )  # fmt: skip


class _MultiLabelHead(head_lib._Head):
    def __init__(
        self,
        n_classes: int,
        weight_column: Any,
        thresholds: Sequence[float],
        vocabulary: list[str],
        loss_reduction: str,
        loss_fn: Optional[Callable[..., Any]],
        classes: Sequence[int],
        name: Optional[str],
    ) -> None:
        self._classes_count, self._weight_column = n_classes, weight_column
        self._thresholds, self._vocabulary = thresholds, vocabulary
        self._reduction, self._loss_fn = loss_reduction, loss_fn
        self._name = name
        self._classes = {
            place: vocabulary[place] if vocabulary else f"class{place}" for place in classes
        }

    @property
    def name(self) -> Optional[str]:
        return self._name

    @property
    def logits_dimension(self) -> int:
        return self._classes_count

    def create_loss(self, features: Any, mode: Any, logits: Any, labels: Any) -> Any:
        logits = tf.convert_to_tensor(logits)
        labels = head_lib._check_dense_labels_match_logits_and_reshape(
            labels=indicators(labels, self._classes_count, self._vocabulary),
            logits=logits,
            expected_labels_dimension=self.logits_dimension,
        )
        if self._loss_fn:
            losses = head_lib._call_loss_fn(
                loss_fn=self._loss_fn, labels=labels, logits=logits, features=features
            )
        else:
            losses = tf.reduce_mean(
                tf.losses.sigmoid_cross_entropy(labels, logits, reduction="none"), -1, keepdims=True
            )
        weights = head_lib._get_weights_and_check_match_logits(
            features=features, weight_column=self._weight_column, logits=logits
        )
        loss = tf.losses.compute_weighted_loss(losses, weights, reduction=self._reduction)
        return head_lib.LossSpec(loss, losses, weights, labels)

    def create_estimator_spec(
        self,
        features: Any,
        mode: Any,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        with tf.name_scope(self._name, "head"):
            logits = head_lib._check_logits_final_dim(logits, self.logits_dimension)
            probabilities = tf.sigmoid(logits, name="probabilities")
            predictions = {"logits": logits, "probabilities": probabilities}
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(
                    mode, predictions, export_outputs=self._exports(predictions)
                )
            spec = self.create_loss(features, mode, logits, labels)
            extra = tf.add_n(regularization_losses) if regularization_losses else None
            loss = spec.training_loss if extra is None else spec.training_loss + extra
            if mode == tf.estimator.ModeKeys.EVAL:
                metrics = metrics_of(
                    self._name, spec, probabilities, extra, self._thresholds, self._classes
                )
                return tf.estimator.EstimatorSpec(mode, predictions, loss, eval_metric_ops=metrics)
            train_op = head_lib._append_update_ops(minimize(loss, optimizer, train_op_fn))
        with tf.name_scope(""):
            tf.summary.scalar(head_lib._summary_key(self._name, MetricKeys.LOSS), loss)
        return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)

    def _exports(self, predictions: Any) -> dict[str, Any]:
        classified = head_lib._classification_output(
            predictions["probabilities"], self.logits_dimension, self._vocabulary
        )
        return {
            "serving_default": classified,
            "classification": classified,
            "predict": tf.estimator.export.PredictOutput(predictions),
        }
