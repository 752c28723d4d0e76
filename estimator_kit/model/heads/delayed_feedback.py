"""The binary objective with the loss `delayed_feedback`: a class 1 that may still come.

Chapelle, "Modeling Delayed Feedback in Display Advertising", KDD 2014. A recent row with the label
0 may still become 1. Log loss takes it for a 0, so its probabilities are too low. This loss learns
how late the label 1 comes, and so how much a 0 says.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.heads import losses
from estimator_kit.model.heads.binary import BinaryHead


class DelayedFeedbackHead(BinaryHead):
    """Two classes from two logits: of the class, and of the rate at which the class 1 is seen.

    The loss is `losses.delayed_feedback`, with times in units of the option `delay`. All metrics
    but `loss` compare the first logit with the labels as they are stored. They are too low for rows
    that are too recent.

    Predictions: as in `BinaryHead`, but logits are float32 [rows, 2]; and delay, float32
    [rows, 1], the mean time until the class 1 is seen, in the unit of `elapsed`.
    """

    @property
    def _delay(self) -> float:
        return float(self.config.loss.delayed_feedback.delay)

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """From labels float32 [rows, 2]: the class, and the time until it was seen or looked up."""
        return losses.delayed_feedback(logits, labels[:, 0], labels[:, 1] / self._delay)

    def outcomes(self, labels: tf.Tensor) -> tf.Tensor:
        return labels[:, 0]

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        rate = tf.exp(tf.clip_by_value(logits[:, 1:], -20.0, 20.0))
        found = super().predictions(logits[:, :1])
        return {**found, "logits": logits, "delay": self._delay / rate}
