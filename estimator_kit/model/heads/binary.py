"""The heads of classes that are present or absent: `binary` and `multi_label`, a sigmoid for each.

The loss `delayed_feedback` makes `binary` a head of two logits. It is from Chapelle, "Modeling
Delayed Feedback in Display Advertising", KDD 2014. A recent row with the label 0 may still become
1. Log loss takes it for a 0, so its probabilities are too low. This loss learns how late the label
1 comes, and so how much a 0 says.
"""

from __future__ import annotations

from typing import Any, ClassVar, Optional

import tensorflow as tf

from estimator_kit.model.heads import class_metrics, losses, row_metrics, score_bins
from estimator_kit.model.heads.base import Batch, Head, Link, RowMetrics
from estimator_kit.model.heads.class_metrics import (
    class_names,
    classification,
    confusion,
    metrics_of_confusion,
)
from estimator_kit.model.heads.group_metrics import group_metrics
from estimator_kit.model.heads.score_bins import Bins, streaming_bins
from estimator_kit.model.heads.streaming import Metric, also_updating, observe, ratio, streaming_sum
from estimator_kit.tf_estimator import estimator
from feature_specs.heads.losses import SigmoidCrossEntropy


class BinaryHead(Head):
    """Two classes from one logit.

    The default loss is sigmoid cross-entropy. The loss of a row is multiplied by
    1 + y (positive_penalty - 1): by the penalty for y = 1, and by 1 for y = 0. With y = 1, logit =
    0 and a penalty of 3, it is 3 log 2 = 2.0794. (For sigmoid cross-entropy with labels 0 and 1
    this is `tf.nn.weighted_cross_entropy_with_logits`.) The penalty is not a weight: `mean` divides
    only by the weights.

    Predictions: logits and logistic, float32 [rows, 1]; probabilities, float32 [rows, 2];
    class_ids, int64 [rows, 1]; classes, string [rows, 1].
    """

    link: ClassVar[Link] = ("Sigmoid", tf.sigmoid)
    row_metrics: ClassVar[RowMetrics] = {
        "auc": row_metrics.Auc,
        "log_loss": row_metrics.log_loss,
        "calibration": row_metrics.calibration_of_logits,
    }

    @classmethod
    def for_entry(cls, entry: Any) -> type[Head]:
        return DelayedFeedbackHead if entry.delayed else cls

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        labels = tf.cast(labels, tf.float32)
        rows = losses.two_class_losses(self.config.loss, logits[:, 0], labels)
        return losses.with_positive_penalty(rows, labels, self.config.positive_penalty)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        logistic = tf.sigmoid(logits)
        class_ids = tf.cast(logits > 0, tf.int64)
        return {
            "logits": logits,
            "logistic": logistic,
            "probabilities": tf.concat([tf.sigmoid(-logits), logistic], axis=1),
            "class_ids": class_ids,
            "classes": tf.gather(class_names(self.label, 2), class_ids),
        }

    def outcomes(self, labels: tf.Tensor) -> tf.Tensor:
        """The classes 0 and 1, float32 [rows], from the labels that the model gets."""
        return tf.cast(labels, tf.float32)

    def mean_values(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "label_mean": self.outcomes(labels),
            "prediction_mean": tf.sigmoid(logits[:, 0]),
        }

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        scores = logits[:, 0]
        means = {
            "loss": self.row_losses(logits, labels),
            **self.mean_values(logits, labels),
        }
        labels = self.outcomes(labels)
        if self._has_log_loss(batch.true_probability):
            means["log_loss"] = losses.sigmoid_cross_entropy(scores, labels)
        if batch.true_probability is not None:
            true_probability = tf.clip_by_value(batch.true_probability, 1e-7, 1 - 1e-7)
            best_logits = tf.math.log(true_probability) - tf.math.log1p(-true_probability)
            means["bayes_loss"] = losses.sigmoid_cross_entropy(best_logits, labels)
        metrics = self._mean_metrics(means, weights)
        counts, update = streaming_sum(confusion(scores > 0, labels, weights), "confusion")
        of_confusion = metrics_of_confusion(counts, with_counts=self.chooses("confusion"))
        metrics.update({name: (value, update) for name, value in of_confusion.items()})
        bins, update = self._bins(scores, labels, weights, "scores")
        observe(self.name, "histogram", bins.table)
        of_order = {
            "auc": score_bins.area_under_roc(bins.counts),
            "auc_precision_recall": score_bins.average_precision(bins.counts),
            **score_bins.chosen_points(bins.counts, self.chosen),
        }
        metrics.update({name: (value, update) for name, value in of_order.items()})
        label_mean, means_update = metrics["label_mean"]
        prediction_mean = metrics["prediction_mean"][0]
        metrics.update(
            accuracy_baseline=(tf.maximum(label_mean, 1 - label_mean), means_update),
            calibration=(ratio(prediction_mean, label_mean), means_update),
        )
        if batch.true_probability is not None:
            best, update = self._bins(batch.true_probability, labels, weights, "true_probabilities")
            metrics["bayes_auc"] = (score_bins.area_under_roc(best.counts), update)
        if self.chooses("expected_calibration_error"):
            metrics["expected_calibration_error"] = class_metrics.expected_calibration_error(
                tf.sigmoid(scores), labels, weights
            )
        grouped = [chosen for chosen in self.chosen if chosen.kind in self.config.by_group]
        if grouped:
            if batch.group is None:
                raise ValueError(f"objective {self.name!r} has metrics of groups, but got no group")
            metrics.update(group_metrics(grouped, batch.group, scores, labels, weights))
        return metrics

    def _has_log_loss(self, true_probability: Optional[tf.Tensor]) -> bool:
        """If the spec asks for it, or if `loss` cannot be compared with a bayes_loss."""
        plain = SigmoidCrossEntropy.model_validate({"sigmoid_cross_entropy": {}})
        own = self.config.loss != plain or self.config.positive_penalty != 1
        return self.chooses("log_loss") or (true_probability is not None and own)

    def _bins(
        self, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, name: str
    ) -> tuple[Bins, tf.Operation]:
        """The weights of positives and negatives by score; see `streaming_bins`."""
        rows = tf.stack([labels * weights, (1 - labels) * weights], axis=1)
        return streaming_bins(scores, rows, name)

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {
            "classify": classification(self.label, predictions["probabilities"]),
            "regress": estimator.export.RegressionOutput(predictions["logistic"]),
        }


class DelayedFeedbackHead(BinaryHead):
    """Two classes from two logits: of the class, and of the rate at which the class 1 is seen.

    The loss is `losses.delayed_feedback`, with times in units of the option `delay`. All metrics
    but `loss` compare the first logit with the labels as they are stored. They are too low for rows
    that are too recent.

    Predictions: as in `BinaryHead`, but logits are float32 [rows, 2]; and delay, float32
    [rows, 1], the mean time until the class 1 is seen, in the unit of `elapsed`.
    """

    @property
    def _delay(self) -> float:
        return float(self.config.loss.delayed_feedback.delay)

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """From labels float32 [rows, 2]: the class, and the time until it was seen or looked up."""
        return losses.delayed_feedback(logits, labels[:, 0], labels[:, 1] / self._delay)

    def outcomes(self, labels: tf.Tensor) -> tf.Tensor:
        return labels[:, 0]

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        rate = tf.exp(tf.clip_by_value(logits[:, 1:], -20.0, 20.0))
        binary_predictions = super().predictions(logits[:, :1])
        return {**binary_predictions, "logits": logits, "delay": self._delay / rate}


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

    link: ClassVar[Link] = ("Sigmoid", tf.sigmoid)

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

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
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
        values = score_bins.chosen_points(bins.counts, self.chosen)
        if self.chooses("auc"):
            values["auc"] = score_bins.area_under_roc(bins.counts)
        if self.chooses("auc_precision_recall"):
            values["auc_precision_recall"] = score_bins.average_precision(bins.counts)
        return {name: (value, update) for name, value in values.items()}

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"classify": classification(self.label, predictions["probabilities"])}
