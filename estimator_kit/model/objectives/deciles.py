"""Sums by predicted value, from which residuals by decile of the prediction follow.

Deciles are not known before the evaluation has ended, so rows are summed in 4,096 bins of the
prediction. Bin edges grow with the value, like asinh, because the scale of a prediction is not
known: a bin is 2.2 % wide, and never narrower than 0.00002.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.objectives.streaming import streaming_sum

BINS = 4096
_FINEST = 1000.0  # asinh is linear below 1 / 1000.
_LIMIT = 45.0  # asinh(1000 * 1.7e16)

# What is summed in a bin.
SUMS = ("weight", "prediction", "label", "squared_error")


def sums_by_prediction(
    predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The total over all batches, float64 [4, BINS] in the order of `SUMS`, and its update op.

    Args:
      predictions, labels, weights: float32 [rows]. All but `weight` are multiplied by the weight.
    """
    wide = [tf.cast(value, tf.float64) for value in (predictions, labels, weights)]
    prediction, label, weight = wide
    position = (tf.asinh(prediction * _FINEST) / _LIMIT + 1) * (BINS / 2)
    bins = tf.cast(tf.clip_by_value(position, 0, BINS - 1), tf.int32)
    rows = [weight, weight * prediction, weight * label, weight * (prediction - label) ** 2]
    batch = tf.stack([tf.math.unsorted_segment_sum(row, bins, BINS) for row in rows])
    return streaming_sum(batch, "by_prediction")
