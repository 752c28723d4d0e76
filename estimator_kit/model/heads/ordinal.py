"""The ordinal objective: classes in an order, from cumulative logits.

McCullagh, "Regression Models for Ordinal Data", 1980. The distances between the thresholds are
logits of each row, because an objective has no variables.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_kit.model.heads import losses
from estimator_kit.model.heads.multi_class import MultiClassHead
from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum


def class_log_probabilities(logits: tf.Tensor) -> tf.Tensor:
    """log P(y = k): float32 [rows, n] from logits l, float32 [rows, n - 1].

    P(y > k) = sigmoid(z_k) with z_0 = l_0 and z_k = z_{k-1} - softplus(l_k), which falls with k.
    Because sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a)), and 1 -
    exp(-softplus(l)) = sigmoid(l), the logarithms are exact for any logit:

        log P(y = k) = log sigmoid(z_{k-1}) + log sigmoid(-z_k) + log sigmoid(l_k)

    A factor that does not exist for the first or last class is left out. The logits (0, 0) give
    z = (0, -0.6931) and the probabilities 1/2, 1/6 and 1/3.
    """
    falls = tf.concat([logits[:, :1], -tf.nn.softplus(logits[:, 1:])], axis=1)
    above = tf.cumsum(falls, axis=1)
    zero = tf.zeros_like(logits[:, :1])
    parts = (
        [zero, tf.math.log_sigmoid(above)],
        [tf.math.log_sigmoid(-above), zero],
        [zero, tf.math.log_sigmoid(logits[:, 1:]), zero],
    )
    return tf.add_n([tf.concat(part, axis=1) for part in parts])


class OrdinalHead(MultiClassHead):
    """n classes in an order, such as grades, from n - 1 logits. See `class_log_probabilities`.

    `MultiClassHead` computes loss and metrics, from the probabilities of the classes. The loss
    of the class 1 with the logits (0, 0) is log 6 = 1.7918. The metric `mean_absolute_error` is the
    mean number of classes between the label and the predicted class.

    Predictions: as in `MultiClassHead`, but logits have the shape [rows, n - 1].
    """

    def row_losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return self.class_losses(class_log_probabilities(logits), labels)

    def predictions(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**self.of_classes(class_log_probabilities(logits)), "logits": logits}

    def metrics(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        true_probability: Optional[tf.Tensor] = None,
        group: Optional[tf.Tensor] = None,
    ) -> dict[str, Metric]:
        scores = class_log_probabilities(logits)
        found = self.class_metrics(scores, labels, weights, self.row_losses(logits, labels))
        guesses = tf.cast(tf.argmax(scores, axis=1), tf.float32)
        errors = losses.absolute(guesses, tf.cast(labels, tf.float32))
        sums = tf.stack([tf.reduce_sum(errors * weights), tf.reduce_sum(weights)])
        totals, update = streaming_sum(sums, "distance")
        return {**found, "mean_absolute_error": (ratio(totals[0], totals[1]), update)}
