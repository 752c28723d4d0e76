"""Sums by predicted value, from which residuals by decile of the prediction follow.

Deciles are not known before the evaluation has ended, and the scale of a prediction never is. So
rows are summed by prediction, in bins that follow the data (`score_bins`).
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.heads.score_bins import Bins, streaming_bins

# What is summed in a bin.
SUMS = ("weight", "prediction", "label", "squared_error")


def sums_by_prediction(
    predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> tuple[Bins, tf.Operation]:
    """The bins of all batches, with the sums in the order of `SUMS`, and their update op.

    Args:
      predictions, labels, weights: float32 [rows]. All but `weight` are multiplied by the weight.
    """
    wide = [tf.cast(value, tf.float64) for value in (predictions, labels, weights)]
    prediction, label, weight = wide
    rows = [weight, weight * prediction, weight * label, weight * (prediction - label) ** 2]
    return streaming_bins(predictions, tf.stack(rows, axis=1), "by_prediction", shares=1)
