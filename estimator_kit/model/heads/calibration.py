"""The expected calibration error, with 15 bins of the probability."""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum

BINS = 15


def expected_calibration_error(
    probabilities: tf.Tensor, outcomes: tf.Tensor, weights: tf.Tensor
) -> Metric:
    """The weighted mean distance between probability and outcome, in bins of equal width.

    It is the sum over bins of |sum(w outcome) - sum(w probability)|, divided by the sum of all w
    (Naeini et al., "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015; for the
    most probable class Guo et al., "On Calibration of Modern Neural Networks", 2017). For two rows
    with the probability 0.8, of which one has the outcome 1, it is |1 - 1.6| / 2 = 0.3. A value of
    0 means that bins are right on average. Single rows may still be wrong.

    Args:
      probabilities, outcomes, weights: float32 [rows]. An outcome is 1 if the event happened.
    """
    bins = tf.clip_by_value(tf.cast(probabilities * BINS, tf.int32), 0, BINS - 1)
    gaps = tf.cast((outcomes - probabilities) * weights, tf.float64)
    sums = tf.concat(
        [
            tf.math.unsorted_segment_sum(gaps, bins, BINS),
            [tf.reduce_sum(tf.cast(weights, tf.float64))],
        ],
        axis=0,
    )
    total, update = streaming_sum(sums, "calibration")
    return ratio(tf.reduce_sum(tf.abs(total[:BINS])), total[BINS]), update
