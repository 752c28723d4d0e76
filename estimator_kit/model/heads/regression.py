"""Objectives of one number: regression, poisson and logistic_regression.

They differ in the link function from the logit to the prediction, and in their losses.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.model.heads import losses
from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.deciles import sums_by_prediction
from estimator_kit.model.heads.observed import observe
from estimator_kit.model.heads.streaming import Metric, also_updating, ratio, streaming_sum


class RegressionHead(Head):
    """A number from one logit, which is the prediction.

    The default loss is the squared error.

    Predictions: predictions, float32 [rows, 1].
    """

    logits_output = "predictions"

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return losses.number_losses(self.config.loss, logits[:, 0], tf.cast(labels, tf.float32))

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": logits}

    def mean_values(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        predictions = self.predictions(logits)["predictions"][:, 0]
        return {"label_mean": tf.cast(labels, tf.float32), "prediction_mean": predictions}

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
                **self.mean_values(logits, labels),
            },
            weights,
        )
        mean_squared_error, update = metrics["mean_squared_error"]
        metrics["root_mean_squared_error"] = (tf.sqrt(mean_squared_error), update)
        if self.chooses("mean_relative_error"):
            metrics["mean_relative_error"] = _mean_relative_error(predictions, labels, weights)
        bins, observed_update = sums_by_prediction(predictions, labels, weights)
        observe(self.name, "by_prediction", bins.table)
        return also_updating(metrics, observed_update)

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {"regress": estimator.export.RegressionOutput(predictions["predictions"])}


class PoissonHead(RegressionHead):
    """A count from one logit z, the logarithm of the rate.

    The loss is exp(z) - y z, and with `full` also + log(y!). See `losses.poisson`.

    Predictions: predictions, which is the rate exp(z), and logits, float32 [rows, 1].
    """

    logits_output = "logits"

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        full = self.config.loss.poisson.full
        return losses.poisson(logits[:, 0], tf.cast(labels, tf.float32), full=full)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": tf.exp(logits), "logits": logits}


class LogisticRegressionHead(RegressionHead):
    """A number from 0 to 1 from one logit. The sigmoid of the logit is the prediction.

    The default loss is sigmoid cross-entropy.

    Predictions: predictions, which is the sigmoid, and logits, float32 [rows, 1].
    """

    logits_output = "logits"

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        labels = tf.cast(labels, tf.float32)
        return losses.two_class_losses(self.config.loss, logits[:, 0], labels)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": tf.sigmoid(logits), "logits": logits}


def _mean_relative_error(predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Metric:
    """The weighted mean of |prediction - label| / |label| over the rows whose label is not 0.

    A prediction of 3 for a label of 2 has the error 0.5. The metric is NaN if all labels are 0.
    """
    has = tf.cast(tf.not_equal(labels, 0), tf.float64) * tf.cast(weights, tf.float64)
    errors = tf.math.divide_no_nan(tf.abs(predictions - labels), tf.abs(labels))
    sums = tf.stack([tf.reduce_sum(tf.cast(errors, tf.float64) * has), tf.reduce_sum(has)])
    total, update = streaming_sum(sums, "relative_error")
    return ratio(total[0], total[1]), update
