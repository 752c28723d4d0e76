"""The regression objective: a number, by squared error."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.objectives.base import Objective
from estimator_kit.objectives.streaming import Metric
from estimator_kit.tf_estimator import estimator


class RegressionObjective(Objective):
    """A number by one logit, which is the prediction itself.

    loss = (prediction - label)^2: a prediction of 3 for a label of 1 costs 4.

    Predictions: predictions, float32 [rows, 1].
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.math.squared_difference(logits[:, 0], tf.cast(labels, tf.float32))

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": logits}

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor],
    ) -> dict[str, Metric]:
        labels = tf.cast(labels, tf.float32)
        metrics = self._mean_metrics(
            {
                "loss": self.row_losses(logits, labels),
                "mean_absolute_error": tf.abs(logits[:, 0] - labels),
                "label_mean": labels,
                "prediction_mean": logits[:, 0],
            },
            weights,
        )
        mean_squared_error, update = metrics["loss"]
        metrics["root_mean_squared_error"] = (tf.sqrt(mean_squared_error), update)
        return metrics

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"regress": estimator.export.RegressionOutput(predictions["predictions"])}
