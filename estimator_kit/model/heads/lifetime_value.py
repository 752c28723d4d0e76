"""The objective ziln: the zero-inflated lognormal distribution of a value.

Wang, Liu & Miao, "A Deep Probabilistic Model for Customer Lifetime Value Prediction", 2019.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.heads import losses
from estimator_kit.model.heads.regression import RegressionHead


class ZeroInflatedLognormalHead(RegressionHead):
    """A value of 0 or more from the logits z, m and s.

    It is above 0 with the probability p = sigmoid(z). Its logarithm is then normal, with the mean m
    and the standard deviation sigma = softplus(s). The prediction is the expected value,
    p exp(m + sigma^2 / 2). The logits (0, 0, 0) predict 0.5 exp(0.6931^2 / 2) = 0.6358. The loss is
    `losses.zero_inflated_lognormal`, which may be negative.

    Predictions: predictions and probability, which is p, float32 [rows, 1]; logits, float32 [rows,
    3].
    """

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
