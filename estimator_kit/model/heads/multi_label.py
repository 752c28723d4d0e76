"""The multi_label objective: any number of n classes, each with a separate sigmoid."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.heads import losses, ranking_curve
from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.classes import classification
from estimator_kit.model.heads.confusion import confusion, metrics_of_confusion
from estimator_kit.model.heads.observed import observe
from estimator_kit.model.heads.score_bins import streaming_bins
from estimator_kit.model.heads.streaming import Metric, also_updating, streaming_sum

_OF_ORDER = ("auc", "auc_precision_recall", "recall_at_precision", "precision_at_recall")


class MultiLabelHead(Head):
    """n classes that do not exclude each other, from n logits. Labels are float32 [rows, n], 0 or
    1.

    The loss of a row is the mean over the classes of the loss of a binary head, as in
    `tf.estimator.MultiLabelHead`. Two logits of 0 cost log 2 = 0.6931 for any labels. The losses of
    the classes that a row has are multiplied by `positive_penalty`: with a penalty of 3, a row with
    one of two classes costs (3 + 1) / 2 log 2 = 1.3863.

    The metrics count pairs of row and class (micro averages), with the threshold 0.5.

    Predictions: logits and probabilities, float32 [rows, n].
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        pairs = losses.two_class_losses(self.config.loss, logits, labels)
        pairs = losses.with_positive_penalty(pairs, labels, self.config.positive_penalty)
        return tf.reduce_mean(pairs, axis=1)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"logits": logits, "probabilities": tf.sigmoid(logits)}

    def mean_values(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "label_mean": tf.reduce_mean(labels, axis=1),
            "prediction_mean": tf.reduce_mean(tf.sigmoid(logits), axis=1),
        }

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        means = {
            "loss": self.row_losses(logits, labels),
            **self.mean_values(logits, labels),
        }
        if self.chooses("log_loss"):
            pairs = losses.sigmoid_cross_entropy(logits, labels)
            means["log_loss"] = tf.reduce_mean(pairs, axis=1)
        metrics = self._mean_metrics(means, weights)
        guesses = tf.cast(logits > 0, tf.float32)
        weight = weights[:, tf.newaxis]
        counts, update = streaming_sum(confusion(logits > 0, labels, weight), "confusion")
        values = metrics_of_confusion(counts, with_counts=self.chooses("confusion"))
        metrics.update({name: (value, update) for name, value in values.items()})
        metrics.update(self._of_order(logits, labels, weights))
        by_class = [tf.reduce_sum(s * weight, axis=0) for s in (labels, guesses, labels * guesses)]
        totals, by_class_update = streaming_sum(tf.stack(by_class), "by_class")
        observe(self.name, "by_class", totals)
        return also_updating(metrics, by_class_update)

    def _of_order(
        self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
    ) -> dict[str, Metric]:
        """The metrics over all thresholds. Each pair of row and class is a row of the bins."""
        if not any(self.chooses(name) for name in _OF_ORDER):
            return {}
        weight = weights[:, tf.newaxis]
        pairs = [tf.reshape(y * weight, [-1]) for y in (labels, 1 - labels)]
        bins, update = streaming_bins(tf.reshape(logits, [-1]), tf.stack(pairs, axis=1), "scores")
        values = ranking_curve.chosen_points(bins.counts, self.chosen)
        if self.chooses("auc"):
            values["auc"] = ranking_curve.area_under_roc(bins.counts)
        if self.chooses("auc_precision_recall"):
            values["auc_precision_recall"] = ranking_curve.average_precision(bins.counts)
        return {name: (value, update) for name, value in values.items()}

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"classify": classification(self.label, predictions["probabilities"])}
