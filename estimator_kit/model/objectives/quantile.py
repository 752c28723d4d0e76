"""The quantile objective: several quantiles of a number, by the pinball loss."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.model.objectives import losses
from estimator_kit.model.objectives.base import Objective
from estimator_kit.model.objectives.streaming import Metric


class QuantileObjective(Objective):
    """The `quantiles` of the spec, each by one logit.

    The loss of a row is the mean of `losses.pinball` over the quantiles: the predictions 1 and 4 of
    the quantiles 0.5 and 0.9 cost a label of 3 (1 + 0.1) / 2 = 0.55.

    A logit is the prediction itself; with `non_crossing` the first one is, and each further one
    adds softplus(logit), which is above 0, to the prediction before it.

    Predictions: predictions and logits, float32 [rows, quantiles]; signature regress for one
    quantile alone.
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        labels = tf.cast(labels, tf.float32)
        columns = tf.unstack(self._quantiles(logits), axis=1)
        return tf.add_n(
            [losses.pinball(p, labels, quantile=q) for p, q in zip(columns, self.config.quantiles)]
        ) / len(columns)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": self._quantiles(logits), "logits": logits}

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        labels = tf.cast(labels, tf.float32)
        means = {"loss": self.row_losses(logits, labels), "label_mean": labels}
        columns = tf.unstack(self._quantiles(logits), axis=1)
        for predictions, quantile in zip(columns, self.config.quantiles):
            # The share of labels up to the prediction; as large as the quantile when it is right.
            means[f"coverage_{quantile:g}"] = tf.cast(labels <= predictions, tf.float32)
        return self._mean_metrics(means, weights)

    def export_outputs(self, predictions: dict[str, tf.Tensor]) -> dict[str, Any]:
        if self.logits_dimension > 1:
            return {}
        return {"regress": estimator.export.RegressionOutput(predictions["predictions"])}

    def _quantiles(self, logits: tf.Tensor) -> tf.Tensor:
        if not self.config.non_crossing:
            return logits
        steps = tf.concat([logits[:, :1], tf.nn.softplus(logits[:, 1:])], axis=1)
        return tf.cumsum(steps, axis=1)
