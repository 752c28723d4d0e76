"""The quantile objective: several quantiles of a number, with the pinball loss."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.model.heads import losses
from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.observed import observe
from estimator_kit.model.heads.streaming import Metric, also_updating, streaming_sum


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

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
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
