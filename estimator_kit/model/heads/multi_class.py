"""The multi_class objective: one of n exclusive classes, from n logits."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.heads import calibration, losses
from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.classes import class_names, classification
from estimator_kit.model.heads.confusion_matrix import confusion_matrix, macro_f1, mean_iou
from estimator_kit.model.heads.observed import observe
from estimator_kit.model.heads.streaming import Metric, also_updating, streaming_sum

# A matrix of more classes is more than a picture can show.
MOST_CLASSES_OF_A_MATRIX = 50


class MultiClassHead(Head):
    """n exclusive classes from n logits.

    The default loss is softmax cross-entropy. `class_penalties` multiplies the loss of the rows of
    each class by a factor: for a class with the penalty 5, three equal logits cost 5 log 3 =
    5.4931. Penalties are not weights: `mean` divides only by the weights.

    Predictions: logits and probabilities, float32 [rows, n]; class_ids, int64 [rows, 1]; classes,
    string [rows, 1].
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self.class_losses(logits, labels)

    def class_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """The losses of the rows, from logits [rows, n] of a softmax."""
        rows = losses.class_losses(self.config.loss, logits, labels)
        if self.config.class_penalties is not None:
            rows *= tf.gather(tf.constant(self.config.class_penalties, tf.float32), labels)
        return rows

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.of_classes(logits)

    def of_classes(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """The predictions, from logits [rows, n] of a softmax."""
        class_ids = tf.argmax(logits, axis=1)[:, tf.newaxis]
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "class_ids": class_ids,
            "classes": tf.gather(class_names(self.label, self.config.num_classes), class_ids),
        }

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        return self.class_metrics(logits, labels, weights, self.row_losses(logits, labels))

    def class_metrics(
        self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, row_losses: tf.Tensor
    ) -> dict[str, Metric]:
        """The metrics, from logits [rows, n] of a softmax and the losses [rows] of training."""
        guesses = tf.argmax(logits, axis=1)
        hits = tf.cast(tf.equal(guesses, labels), tf.float32)
        means = {"loss": row_losses, "accuracy": hits}
        for chosen in self.chosen:
            if chosen.name == "log_loss":
                means["log_loss"] = losses.softmax_cross_entropy(logits, labels)
            elif chosen.name == "top_k_accuracy":
                means[chosen.label] = _in_top(logits, labels, int(chosen.value or 1))
        metrics = self._mean_metrics(means, weights)
        if self.chooses("expected_calibration_error"):
            surest = tf.reduce_max(tf.nn.softmax(logits), axis=1)
            metrics["expected_calibration_error"] = calibration.expected_calibration_error(
                surest, hits, weights
            )
        metrics.update(self._of_matrix(labels, guesses, weights))
        return also_updating(metrics, self._observe(labels, guesses, weights, hits))

    def _observe(
        self, labels: tf.Tensor, guesses: tf.Tensor, weights: tf.Tensor, hits: tf.Tensor
    ) -> tf.Operation:
        """Offers the confusion of few classes, or the labels, predictions and hits of many."""
        classes = self.config.num_classes
        if classes <= MOST_CLASSES_OF_A_MATRIX:
            kind, batch = "confusion", confusion_matrix(labels, guesses, weights, classes)
        else:
            rows = ((weights, labels), (weights, guesses), (weights * hits, labels))
            sums = [tf.math.unsorted_segment_sum(w, ids, classes) for w, ids in rows]
            kind, batch = "by_class", tf.stack(sums)
        totals, update = streaming_sum(batch, kind)
        observe(self.name, kind, totals)
        return update

    def _of_matrix(
        self, labels: tf.Tensor, guesses: tf.Tensor, weights: tf.Tensor
    ) -> dict[str, Metric]:
        names = [name for name in ("f1", "mean_iou", "confusion") if self.chooses(name)]
        if not names:
            return {}
        classes = self.config.num_classes
        matrix, update = streaming_sum(
            confusion_matrix(labels, guesses, weights, classes), "confusion"
        )
        values: dict[str, tf.Tensor] = {}
        if "f1" in names:
            values["f1"] = macro_f1(matrix)
        if "mean_iou" in names:
            values["mean_iou"] = mean_iou(matrix)
        if "confusion" in names:
            for i in range(classes):
                for j in range(classes):
                    values[f"label_{i}_predicted_{j}"] = matrix[i, j]
        return {name: (value, update) for name, value in values.items()}

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"classify": classification(self.label, predictions["probabilities"])}


def _in_top(logits: tf.Tensor, labels: tf.Tensor, k: int) -> tf.Tensor:
    """1 if fewer than k classes have a larger logit than the label, or an equal one before it."""
    own = tf.gather(logits, labels, axis=1, batch_dims=1)[:, tf.newaxis]
    earlier = tf.range(logits.shape[1], dtype=tf.int64) < labels[:, tf.newaxis]
    ahead = (logits > own) | (tf.equal(logits, own) & earlier)
    return tf.cast(tf.math.count_nonzero(ahead, axis=1) < k, tf.float32)
