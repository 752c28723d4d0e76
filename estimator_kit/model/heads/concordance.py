"""The concordance index of survival times in intervals, from sums by risk.

Harrell's concordance index (Harrell et al., "Evaluating the Yield of Medical Tests", JAMA 247,
1982) is the probability that the row with the earlier event, of two rows, has the higher risk. It
compares all pairs of rows, which cannot be streamed. Here, times are the intervals of the head, so
all pairs follow from the rows and events of each interval by risk (`score_bins`).

- Two rows are a pair if one has its event in an interval that the other one survived. It does not
  count two events in one interval, or a row that was censored before it survived the interval.
- A pair of equal risks counts half.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.heads import score_bins
from estimator_kit.model.heads.streaming import Metric, ratio

# Many intervals have fewer bins: the sums of all bins take 16 MiB, or 256 KiB for each interval if
# there are more than 63.
_SUMS = 2**21
_LEAST_BINS = 2**14


def concordance(
    risks: tf.Tensor, survived: tf.Tensor, ended: tf.Tensor, weights: tf.Tensor, intervals: int
) -> Metric:
    """The weighted share of pairs in the right order. NaN without a pair.

    For example, a row has its event in the first interval, and two rows survive it. If the first
    row's risk is above the risk of one of them, 1 of 2 pairs is in order, so the value is 0.5.

    Args:
      risks: float [rows], a score that is larger for a higher risk.
      survived: int32 [rows], the number of intervals that a row survived, 0 to `intervals`.
      ended: float32 [rows], 1 if the event was in the interval after these.
      weights: float32 [rows].
      intervals: how many intervals there are.
    """
    weights = tf.cast(weights, tf.float64)[:, tf.newaxis]
    events = tf.cast(ended, tf.float64)[:, tf.newaxis] * weights
    # The rows by the number of intervals that they survived, and those that had their event then.
    at = tf.one_hot(survived, intervals + 1, dtype=tf.float64)
    width = 2 + 2 * (intervals + 1)
    bins, update = score_bins.streaming_bins(
        risks,
        # First what decides on bins.
        tf.concat([events, weights - events, at * weights, at * events], axis=1),
        "concordance",
        capacity=min(score_bins.CAPACITY, max(_SUMS // width, _LEAST_BINS)),
    )
    rows, events = tf.split(bins.sums[:, 2:], 2, axis=1)
    later = tf.cumsum(rows, axis=1, exclusive=True, reverse=True)
    lower = tf.cumsum(later, axis=0, exclusive=True) + later / 2
    pairs = tf.reduce_sum(events, axis=0) * tf.reduce_sum(later, axis=0)
    return ratio(tf.reduce_sum(events * lower), tf.reduce_sum(pairs)), update
