"""Sums by score in bounded memory, from which AUC and other metrics of the order follow.

    rows = tf.stack([labels * weights, (1 - labels) * weights], axis=1)
    bins, update = streaming_bins(logits, rows, "scores")
    bins.scores, bins.sums       # float32 [bins], lowest first, and float64 [bins, 2]

Metrics of the order must not depend on the scale of the scores, so no edge of a bin is fixed. The
first bins are the scores themselves, and equal scores share a bin. Up to CAPACITY rows, or EXACT
different scores, every metric of the bins is exact. Beyond that, neighbors are joined (`joined`):
the rows of a joined bin count as ties. Only the order of the scores decides what is joined.

A bin that was joined has at most 3 / 8,192 of each sum, so a rare class has as many bins as a
frequent one. With 2,000,000 rows in six orders, of which 0.1 % or 50 % were positive, the error of
the AUC was below 0.0001, and the error of the average precision was below 0.1 % of its value. A
batch costs an append, and every 65,000 to 114,000 rows cost a sort, which takes about 25 ms.

    area_under_roc(bins.counts)

Metrics of the order depend on the order alone, so their arguments do not contain the scores. Rows
of one column have the same score and count as ties. The AUC is the probability that a positive row
has a higher score than a negative row. Ties count half (Hanley & McNeil, Radiology 143, 1982).

`counts` is float64 [2, scores], with a column for each different score, the lowest first: the
weights of the positives and of the negatives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from estimator_kit.model.heads.streaming import Stored, ratio
from feature_specs.heads.metrics import MetricChoice
from input_pipelines.reading.row_groups import row_changes

CAPACITY = 2**17  # Rows or bins to store.
EXACT = CAPACITY // 2  # Different scores up to which nothing is joined.


class Bins(NamedTuple):
    """Sums by score.

    Attributes:
      scores: float [bins], strictly increasing.
      sums: float64 [bins, n].
    """

    scores: tf.Tensor
    sums: tf.Tensor

    @property
    def counts(self) -> tf.Tensor:
        """float64 [n, bins], as `area_under_roc` takes them."""
        return tf.transpose(self.sums)

    @property
    def table(self) -> tf.Tensor:
        """float64 [1 + n, bins]: the scores, and the sums, for `streaming.observe`."""
        return tf.concat([tf.cast(self.scores, tf.float64)[tf.newaxis], self.counts], axis=0)


def streaming_bins(
    scores: tf.Tensor, rows: tf.Tensor, name: str, *, shares: int = 2, capacity: int = CAPACITY
) -> tuple[Bins, tf.Operation]:
    """The bins of all batches so far, and the op that adds this batch.

    Args:
      scores: float32 or float64 [rows], without NaN.
      rows: [rows, n], what is summed. A row of zeros is left out.
      name: the scope of the variables.
      shares: how many of the sums, from the first, decide which bins are joined. They must be 0 or
        more in each row.
      capacity: how many rows or bins to store.
    """
    rows = tf.cast(rows, tf.float64)
    with tf.compat.v1.variable_scope(name):
        stored = (
            Stored("scores", [capacity], scores.dtype),
            Stored("sums", [capacity, int(rows.shape[1])], tf.float64),
        )
        count = Stored("count", [], tf.int64)
    first = [each.value()[: count.value()] for each in stored]
    if not count.adds:
        return merged(Bins(*first)), tf.no_op()
    counts = tf.reduce_any(tf.not_equal(rows, 0), axis=1)
    batch = Bins(tf.boolean_mask(scores, counts), tf.boolean_mask(rows, counts))
    begin = count.now()
    end = begin + tf.size(batch.scores, tf.int64)

    def append() -> tf.Operation:
        writes = [each.write(new, begin, end) for each, new in zip(stored, batch)]
        return tf.group(*writes, count.write(end))

    def join() -> tf.Operation:
        every = _together(Bins(*(each.now()[:begin] for each in stored)), batch)
        kept = joined(every, shares=shares, exact=capacity // 2, most=capacity // 8)
        size = tf.size(kept.scores, tf.int64)
        with tf.control_dependencies([*kept]):
            writes = [each.write(new, end=size) for each, new in zip(stored, kept)]
            return tf.group(*writes, count.write(size))

    with tf.control_dependencies([*batch]):
        update = tf.cond(end <= capacity, append, join)
    return merged(Bins(*first)), update


def merged(bins: Bins) -> Bins:
    """Sorts bins by score, and joins bins of equal scores, which changes no metric."""
    order = tf.argsort(bins.scores)
    return _by_block(
        Bins(tf.gather(bins.scores, order), tf.gather(bins.sums, order)),
        row_changes(tf.gather(bins.scores, order)),
    )


def joined(bins: Bins, *, shares: int, exact: int, most: int) -> Bins:
    """Joins bins until there are at most `most`, if there are more than `exact` different scores.

    The bins are laid on a line of `most` / 2 units, one after the other. The length of a bin is the
    mean of its share of each of the first `shares` sums, as in a quantile sketch, and of its share
    of log(sums from the top down to the bin). So precision, which divides by the latter, changes by
    a small factor inside a bin. The bins inside one unit become one bin, with the score in their
    middle. A bin that crosses the end of a unit stays as it is, so a score that many rows have is
    not joined with others.
    """
    bins = merged(bins)
    few = tf.size(bins.scores) <= exact
    return _by_block(bins, few | _begins(bins.sums[:, :shares], most // 2))


def _begins(sums: tf.Tensor, units: int) -> tf.Tensor:
    """bool [bins], whether a bin is not joined with the bin before it."""
    down_to = tf.cumsum(tf.reduce_sum(sums, axis=1), reverse=True)
    above = tf.concat([down_to[1:], down_to[-1:]], axis=0)  # Nothing is above the last bin.
    parts = tf.concat([sums, tf.math.log(down_to / above)[:, tf.newaxis]], axis=1)
    each = tf.math.divide_no_nan(parts, tf.reduce_sum(parts, axis=0))
    ends = tf.cumsum(tf.reduce_sum(each, axis=1))
    ends = tf.floor(ends / ends[-1] * units)
    starts = tf.concat([[0.0], ends[:-1]], axis=0)
    return row_changes(starts + ends)


def _by_block(bins: Bins, begins: tf.Tensor) -> Bins:
    """One bin for each run of bins, with the score in the middle of the run."""
    first = tf.cast(tf.where(begins)[:, 0], tf.int32)
    last = tf.concat([first[1:], [tf.size(begins)]], axis=0) - 1
    block = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    return Bins(tf.gather(bins.scores, (first + last) // 2), tf.math.segment_sum(bins.sums, block))


def _together(first: Bins, second: Bins) -> Bins:
    return Bins(*(tf.concat(parts, axis=0) for parts in zip(first, second)))


def area_under_roc(counts: tf.Tensor) -> tf.Tensor:
    """The AUC. NaN without positives or without negatives.

    With two positives of the scores 1 and 3 and a negative of the score 2, one of the two pairs is
    in the right order, so the AUC is 0.5.
    """
    positives, negatives = tf.unstack(counts)
    below = tf.cumsum(negatives, exclusive=True)
    pairs = tf.reduce_sum(positives * (below + negatives / 2))
    return ratio(pairs, tf.reduce_sum(positives) * tf.reduce_sum(negatives))


def average_precision(counts: tf.Tensor) -> tf.Tensor:
    """The area under the precision-recall curve: the sum of precision over the steps of recall.

    It does not interpolate, as scikit-learn's `average_precision_score`.
    """
    positives, negatives = tf.unstack(counts)
    true = tf.cumsum(positives, reverse=True)
    false = tf.cumsum(negatives, reverse=True)
    precision = tf.math.divide_no_nan(true, true + false)
    return ratio(tf.reduce_sum(positives * precision), tf.reduce_sum(positives))


def recall_at_precision(counts: tf.Tensor, precision: float) -> tf.Tensor:
    """The largest recall of a threshold with at least the given precision. 0 if no threshold has
    it.

    If positives have the scores 3 and 1 and a negative has 2, the recall at the precision 0.6 is 1
    (2 of 3 rows), and at 0.7 it is 1/2. NaN without positives.
    """
    precisions, recalls = _precisions_and_recalls(counts)
    best = tf.reduce_max(tf.where(precisions >= precision, recalls, tf.zeros_like(recalls)))
    return ratio(best * tf.reduce_sum(counts[0]), tf.reduce_sum(counts[0]))


def precision_at_recall(counts: tf.Tensor, recall: float) -> tf.Tensor:
    """The largest precision of a threshold with at least the given recall.

    In the example of `recall_at_precision`, the precision at the recall 0.5 is 1, and at 0.6 it is
    2/3. NaN without positives.
    """
    precisions, recalls = _precisions_and_recalls(counts)
    best = tf.reduce_max(tf.where(recalls >= recall, precisions, tf.zeros_like(recalls)))
    return ratio(best * tf.reduce_sum(counts[0]), tf.reduce_sum(counts[0]))


def chosen_points(counts: tf.Tensor, chosen: Iterable[MetricChoice]) -> dict[str, tf.Tensor]:
    """The metrics of the two functions above that the spec asks for."""
    functions = {
        "recall_at_precision": recall_at_precision,
        "precision_at_recall": precision_at_recall,
    }
    return {
        choice.label: functions[choice.name](counts, float(choice.value or 0))
        for choice in chosen
        if choice.name in functions
    }


def _precisions_and_recalls(counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Precision and recall if the rows from each score upwards are taken as positives."""
    true, false = tf.unstack(tf.cumsum(counts, axis=1, reverse=True))
    return (
        tf.math.divide_no_nan(true, true + false),
        tf.math.divide_no_nan(true, tf.reduce_sum(counts[0])),
    )


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
