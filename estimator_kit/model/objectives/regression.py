"""Objectives of one number: regression, poisson and logistic_regression.

They differ in the link from the logit to the prediction, and in their losses.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.model.objectives import losses
from estimator_kit.model.objectives.base import Objective
from estimator_kit.model.objectives.streaming import Metric, ratio, streaming_sum


class RegressionObjective(Objective):
    """A number by one logit, which is the prediction itself.

    The loss is the squared error unless the spec names another one (`losses`).

    Predictions: predictions, float32 [rows, 1].
    """

    logits_output = "predictions"

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return losses.number_losses(self.config.loss, logits[:, 0], tf.cast(labels, tf.float32))

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": logits}

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        labels = tf.cast(labels, tf.float32)
        predictions = self.predictions(logits)["predictions"][:, 0]
        metrics = self._mean_metrics(
            {
                "loss": self.row_losses(logits, labels),
                "mean_absolute_error": losses.absolute(predictions, labels),
                "mean_squared_error": losses.squared(predictions, labels),
                "label_mean": labels,
                "prediction_mean": predictions,
            },
            weights,
        )
        mean_squared_error, update = metrics["mean_squared_error"]
        metrics["root_mean_squared_error"] = (tf.sqrt(mean_squared_error), update)
        if self.chooses("mean_relative_error"):
            metrics["mean_relative_error"] = _mean_relative_error(predictions, labels, weights)
        return metrics

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"regress": estimator.export.RegressionOutput(predictions["predictions"])}


class PoissonObjective(RegressionObjective):
    """A count by one logit z, the logarithm of its rate.

    loss = exp(z) - y z, with `full` + log(y!): see `losses.poisson`.

    Predictions: predictions, the rate exp(z), and logits, float32 [rows, 1].
    """

    logits_output = "logits"

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        full = self.config.loss.poisson.full
        return losses.poisson(logits[:, 0], tf.cast(labels, tf.float32), full=full)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": tf.exp(logits), "logits": logits}


class LogisticRegressionObjective(RegressionObjective):
    """A share from 0 to 1 by one logit, whose sigmoid is the prediction.

    The loss is sigmoid cross-entropy unless the spec names another one (`losses`).

    Predictions: predictions, the sigmoid, and logits, float32 [rows, 1].
    """

    logits_output = "logits"

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        labels = tf.cast(labels, tf.float32)
        return losses.two_class_losses(self.config.loss, logits[:, 0], labels)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": tf.sigmoid(logits), "logits": logits}


def _mean_relative_error(predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Metric:
    """The mean of |prediction - label| / |label|, by weight, over the rows whose label is not 0.

    A prediction of 3 for a label of 2 is 0.5. A label of 0 has no relative error; NaN without any
    other.
    """
    has = tf.cast(tf.not_equal(labels, 0), tf.float64) * tf.cast(weights, tf.float64)
    errors = tf.math.divide_no_nan(tf.abs(predictions - labels), tf.abs(labels))
    sums = tf.stack([tf.reduce_sum(tf.cast(errors, tf.float64) * has), tf.reduce_sum(has)])
    total, update = streaming_sum(sums, "relative_error")
    return ratio(total[0], total[1]), update
