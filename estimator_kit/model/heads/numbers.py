"""The heads of numbers: regression, poisson, logistic_regression, ziln, quantile and cosine.

They differ in the link function from the logits to the prediction, and in their losses. `ziln` is
from Wang, Liu & Miao, "A Deep Probabilistic Model for Customer Lifetime Value Prediction", 2019.
"""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from estimator_kit.model.heads import losses, row_metrics
from estimator_kit.model.heads.base import Batch, Head, Link, RowMetrics
from estimator_kit.model.heads.score_bins import sums_by_prediction
from estimator_kit.model.heads.streaming import Metric, also_updating, observe, ratio, streaming_sum
from estimator_kit.tf_estimator import estimator


class RegressionHead(Head):
    """A number from one logit, which is the prediction.

    The default loss is the squared error. With `center` c and `scale` s, an output z of the model
    becomes the logit c + s z, and the loss compares (logit - c) / s and (label - c) / s. The
    output 0.5 with c = 10 and s = 4 predicts 12. For the label 20 it costs (0.5 - 2.5)^2 = 4.

    Predictions: predictions, float32 [rows, 1].
    """

    row_metrics: ClassVar[RowMetrics] = {
        "mean_absolute_error": row_metrics.absolute_error,
        "mean_squared_error": row_metrics.squared_error,
    }

    logits_output = "predictions"

    def in_units(self, logits: tf.Tensor) -> tf.Tensor:
        center, scale = self._center_and_scale
        return logits if (center, scale) == (0.0, 1.0) else center + scale * logits

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        predictions, labels = logits[:, 0], tf.cast(labels, tf.float32)
        center, scale = self._center_and_scale
        if (center, scale) != (0.0, 1.0):
            predictions, labels = (predictions - center) / scale, (labels - center) / scale
        return losses.number_losses(self.config.loss, predictions, labels)

    @property
    def _center_and_scale(self) -> tuple[float, float]:
        """Heads that are derived from this one have neither."""
        return getattr(self.config, "center", 0.0), getattr(self.config, "scale", 1.0)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": logits}

    def mean_values(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        predictions = self.predictions(logits)["predictions"][:, 0]
        return {"label_mean": tf.cast(labels, tf.float32), "prediction_mean": predictions}

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
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


class PoissonRegressionHead(RegressionHead):
    """A count from one logit z, the logarithm of the rate.

    The loss is exp(z) - y z, and with `full` also + log(y!). See `losses.poisson`.

    Predictions: predictions, which is the rate exp(z), and logits, float32 [rows, 1].
    """

    link: ClassVar[Link] = ("Exp", tf.exp)
    row_metrics: ClassVar[RowMetrics] = {
        **RegressionHead.row_metrics,
        "calibration": row_metrics.Ratio,
    }

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

    link: ClassVar[Link] = ("Sigmoid", tf.sigmoid)
    row_metrics: ClassVar[RowMetrics] = {
        "log_loss": row_metrics.log_loss,
        "calibration": row_metrics.calibration_of_logits,
        "mean_squared_error": row_metrics.squared_error_of_logits,
    }

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


class ZeroInflatedLognormalHead(RegressionHead):
    """A value of 0 or more from the logits z, m and s.

    It is above 0 with the probability p = sigmoid(z). Its logarithm is then normal, with the mean m
    and the standard deviation sigma = softplus(s). The prediction is the expected value,
    p exp(m + sigma^2 / 2). The logits (0, 0, 0) predict 0.5 exp(0.6931^2 / 2) = 0.6358. The loss is
    `losses.zero_inflated_lognormal`, which may be negative.

    Predictions: predictions and probability, which is p, float32 [rows, 1]; logits, float32 [rows,
    3].
    """

    row_metrics: ClassVar[RowMetrics] = {
        **RegressionHead.row_metrics,
        "calibration": row_metrics.Ratio,
    }

    logits_output = "logits"

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return losses.zero_inflated_lognormal(logits, tf.cast(labels, tf.float32))

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        probability = tf.sigmoid(logits[:, :1])
        sigma = losses.lognormal_scale(logits[:, 2:])
        return {
            "predictions": probability * tf.exp(logits[:, 1:2] + tf.square(sigma) / 2),
            "probability": probability,
            "logits": logits,
        }


class QuantileHead(Head):
    """The `quantiles` of the spec, from one logit per quantile.

    The loss of a row is the mean of `losses.pinball` over the quantiles. For the label 3 and the
    quantiles 0.5 and 0.9, the predictions 1 and 4 cost (1 + 0.1) / 2 = 0.55.

    The logits are the predictions. With `non_crossing`, the first logit is the first prediction,
    and each other logit adds softplus(logit), which is positive, to the prediction before it.

    Predictions: predictions and logits, float32 [rows, quantiles]. With one quantile there is also
    the signature regress.
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        labels = tf.cast(labels, tf.float32)
        columns = tf.unstack(self._quantiles(logits), axis=1)
        return tf.add_n(
            [losses.pinball(p, labels, quantile=q) for p, q in zip(columns, self.config.quantiles)]
        ) / len(columns)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": self._quantiles(logits), "logits": logits}

    def mean_values(self, logits: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"label_mean": tf.cast(labels, tf.float32)}

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        labels = tf.cast(labels, tf.float32)
        means = {"loss": self.row_losses(logits, labels), **self.mean_values(logits, labels)}
        columns = tf.unstack(self._quantiles(logits), axis=1)
        for predictions, quantile in zip(columns, self.config.quantiles):
            # The share of labels that are at most the prediction. Ideally it equals the quantile.
            means[f"coverage_{quantile:g}"] = tf.cast(labels <= predictions, tf.float32)
        covered = [means[f"coverage_{quantile:g}"] for quantile in self.config.quantiles]
        sums = [tf.reduce_sum(weights * values) for values in (tf.ones_like(labels), *covered)]
        totals, update = streaming_sum(tf.stack(sums), "covered")
        observe(self.name, "coverage", totals)
        return also_updating(self._mean_metrics(means, weights), update)

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        if self.logits_dimension > 1:
            return {}
        return {"regress": estimator.export.RegressionOutput(predictions["predictions"])}

    def _quantiles(self, logits: tf.Tensor) -> tf.Tensor:
        if not self.config.non_crossing:
            return logits
        steps = tf.concat([logits[:, :1], tf.nn.softplus(logits[:, 1:])], axis=1)
        return tf.cumsum(steps, axis=1)


class CosineDistanceHead(Head):
    """n logits that learn the direction of the label, float32 [rows, n].

    The loss is 1 - cosine. See `losses.cosine`. The lengths of logits and label have no effect. A
    label of zeros has no direction and always costs 1.

    Predictions: logits, and predictions, which are the logits scaled to length 1. float32 [rows,
    n].
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return losses.cosine(logits, labels)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": tf.math.l2_normalize(logits, axis=1), "logits": logits}

    def metrics(self, batch: Batch) -> dict[str, Metric]:
        logits, labels, weights = batch[:3]
        similarity = losses.cosine_similarity(logits, labels)
        metrics = self._mean_metrics(
            {"loss": self.row_losses(logits, labels), "cosine_similarity": similarity}, weights
        )
        bins = tf.cast(tf.clip_by_value((similarity + 1) * 20, 0, 39), tf.int32)
        totals, update = streaming_sum(
            tf.math.unsorted_segment_sum(weights, bins, 40), "similarities"
        )
        observe(self.name, "similarity", totals)
        return also_updating(metrics, update)

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        return {}
