"""The concordance index of survival times in intervals, from histograms of the risk.

Harrell's concordance index (Harrell et al., "Evaluating the Yield of Medical Tests", JAMA 247,
1982) is the probability that the row with the earlier event, of two rows, has the higher risk. It
compares all pairs of rows, which cannot be streamed. Here, times are the intervals of the head, and
risks are put into 4,096 bins of their log odds from -20 to 20. Then all pairs follow from two
histograms, which are sums over rows.

- Two rows are a pair if one has its event in an interval that the other one survived. It does not
  count two events in one interval, or a row that was censored before it survived the interval.
- A pair whose risks are in one bin, 0.0098 wide, counts half.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.objectives import ranking_curve
from estimator_kit.model.objectives.streaming import Metric, ratio, streaming_sum

BINS = 4096


def concordance(
    risks: tf.Tensor, survived: tf.Tensor, ended: tf.Tensor, weights: tf.Tensor, intervals: int
) -> Metric:
    """The weighted share of pairs in the right order. NaN without a pair.

    For example, a row has its event in the first interval, and two rows survive it. If the first
    row's risk is above the risk of one of them, 1 of 2 pairs is in order, so the value is 0.5.

    Args:
      risks: float32 [rows], log odds or another score that is larger for a higher risk.
      survived: int32 [rows], the number of intervals that a row survived, 0 to `intervals`.
      ended: float32 [rows], 1 if the event was in the interval after these.
      weights: float32 [rows].
      intervals: how many intervals there are.
    """
    place = survived * BINS + ranking_curve.bins_of(risks, BINS)
    # Rows by the number of intervals that they survived, and those that had their event then.
    sums = [
        tf.math.unsorted_segment_sum(tf.cast(w, tf.float64), place, (intervals + 1) * BINS)
        for w in (weights, weights * ended)
    ]
    batch = tf.reshape(tf.stack(sums), [2, intervals + 1, BINS])
    total, update = streaming_sum(batch, "concordance")
    rows, events = tf.unstack(total)
    later = tf.cumsum(rows, axis=0, exclusive=True, reverse=True)
    lower = tf.cumsum(later, axis=1, exclusive=True) + later / 2
    pairs = tf.reduce_sum(events, axis=1) * tf.reduce_sum(later, axis=1)
    return ratio(tf.reduce_sum(events * lower), tf.reduce_sum(pairs)), update
