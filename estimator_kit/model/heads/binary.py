"""The binary objective: the probability of class 1, from one logit."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.model.heads import calibration, losses, ranking_curve
from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.classes import class_names, classification
from estimator_kit.model.heads.confusion import confusion, metrics_of_confusion
from estimator_kit.model.heads.group_metrics import group_metrics
from estimator_kit.model.heads.observed import observe
from estimator_kit.model.heads.score_bins import Bins, streaming_bins
from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum
from feature_specs.heads.losses import SigmoidCrossEntropy
from feature_specs.heads.metric_choices import BY_GROUP


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

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        scores = logits[:, 0]
        means = {
            "loss": self.row_losses(logits, labels),
            **self.mean_values(logits, labels),
        }
        labels = self.outcomes(labels)
        if self._has_log_loss(true_probability):
            means["log_loss"] = losses.sigmoid_cross_entropy(scores, labels)
        if true_probability is not None:
            known = tf.clip_by_value(true_probability, 1e-7, 1 - 1e-7)
            best_logits = tf.math.log(known) - tf.math.log1p(-known)
            means["bayes_loss"] = losses.sigmoid_cross_entropy(best_logits, labels)
        metrics = self._mean_metrics(means, weights)
        counts, update = streaming_sum(confusion(scores > 0, labels, weights), "confusion")
        of_confusion = metrics_of_confusion(counts, with_counts=self.chooses("confusion"))
        metrics.update({name: (value, update) for name, value in of_confusion.items()})
        bins, update = self._bins(scores, labels, weights, "scores")
        observe(self.name, "histogram", bins.table)
        of_order = {
            "auc": ranking_curve.area_under_roc(bins.counts),
            "auc_precision_recall": ranking_curve.average_precision(bins.counts),
            **ranking_curve.chosen_points(bins.counts, self.chosen),
        }
        metrics.update({name: (value, update) for name, value in of_order.items()})
        label_mean, means_update = metrics["label_mean"]
        prediction_mean = metrics["prediction_mean"][0]
        metrics.update(
            accuracy_baseline=(tf.maximum(label_mean, 1 - label_mean), means_update),
            calibration=(ratio(prediction_mean, label_mean), means_update),
        )
        if true_probability is not None:
            best, update = self._bins(true_probability, labels, weights, "true_probabilities")
            metrics["bayes_auc"] = (ranking_curve.area_under_roc(best.counts), update)
        if self.chooses("expected_calibration_error"):
            metrics["expected_calibration_error"] = calibration.expected_calibration_error(
                tf.sigmoid(scores), labels, weights
            )
        grouped = [chosen for chosen in self.chosen if chosen.name in BY_GROUP]
        if grouped:
            if group is None:
                raise ValueError(f"objective {self.name!r} has metrics of groups, but got no group")
            metrics.update(group_metrics(grouped, group, scores, labels, weights))
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
