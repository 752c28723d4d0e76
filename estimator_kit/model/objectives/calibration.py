"""Expected calibration error, in 15 bins of the probability."""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.objectives.streaming import Metric, ratio, streaming_sum

BINS = 15


def expected_calibration_error(
    probabilities: tf.Tensor, outcomes: tf.Tensor, weights: tf.Tensor
) -> Metric:
    """The mean distance, by weight, between probability and outcome in bins of one width.

    sum over bins of |sum(w outcome) - sum(w probability)| / sum of all w (Naeini et al.,
    "Obtaining Well Calibrated Probabilities Using Bayesian Binning", 2015; of the most probable
    class Guo et al., "On Calibration of Modern Neural Networks", 2017). Two rows of probability 0.8
    of which one happens: |1 - 1.6| / 2 = 0.3. 0 says that bins are right on average, not rows.

    Args:
      probabilities, outcomes, weights: float32 [rows]; an outcome is 1 where the event happened.
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
