"""The regression objective: a number, by squared error or another loss."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.objectives import losses
from estimator_kit.objectives.base import Objective
from estimator_kit.objectives.streaming import Metric
from estimator_kit.tf_estimator import estimator


class RegressionObjective(Objective):
    """A number by one logit, which is the prediction itself.

    The loss is the squared error unless the spec names another one (`losses`).

    Predictions: predictions, float32 [rows, 1].
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return losses.number_losses(self.config.loss, logits[:, 0], tf.cast(labels, tf.float32))

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
                "mean_absolute_error": losses.absolute(logits[:, 0], labels),
                "mean_squared_error": losses.squared(logits[:, 0], labels),
                "label_mean": labels,
                "prediction_mean": logits[:, 0],
            },
            weights,
        )
        mean_squared_error, update = metrics["mean_squared_error"]
        metrics["root_mean_squared_error"] = (tf.sqrt(mean_squared_error), update)
        return metrics

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"regress": estimator.export.RegressionOutput(predictions["predictions"])}
