"""The multi_class objective: one of n exclusive classes, by softmax cross-entropy or focal loss."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.objectives import losses
from estimator_kit.objectives.base import Objective
from estimator_kit.objectives.classes import class_names
from estimator_kit.objectives.streaming import Metric
from estimator_kit.tf_estimator import estimator


class MultiClassObjective(Objective):
    """n classes by n logits.

    The loss is softmax cross-entropy unless the spec says focal (`losses`). `class_penalties` has a
    factor for the rows of each class: three equal logits cost 5 log 3 = 5.4931 in a row of a class
    with the penalty 5. Penalties are no weights: `mean` divides by the weights alone.

    Predictions: logits and probabilities, float32 [rows, n]; class_ids, int64 [rows, 1]; classes,
    string [rows, 1].
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        rows = losses.class_losses(self.config.loss, logits, labels)
        if self.config.class_penalties is not None:
            rows *= tf.gather(tf.constant(self.config.class_penalties, tf.float32), labels)
        return rows

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        class_ids = tf.argmax(logits, axis=1)[:, tf.newaxis]
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "class_ids": class_ids,
            "classes": tf.gather(class_names(self.label, self.logits_dimension), class_ids),
        }

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor],
    ) -> dict[str, Metric]:
        hits = tf.equal(tf.argmax(logits, axis=1), labels)
        return self._mean_metrics(
            {"loss": self.row_losses(logits, labels), "accuracy": tf.cast(hits, tf.float32)},
            weights,
        )

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        names = class_names(self.label, self.logits_dimension)
        rows = tf.shape(predictions["logits"])[0]
        return {
            "classify": estimator.export.ClassificationOutput(
                scores=predictions["probabilities"], classes=tf.tile(names[tf.newaxis], [rows, 1])
            )
        }
