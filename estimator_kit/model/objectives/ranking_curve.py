"""AUC and threshold metrics from a histogram of logits.

TensorFlow's streaming AUC compares every row with each of 200 thresholds. For rare events, most
predictions fall between two of them. Here, a row costs one addition to a histogram of 16,384 bins
over the logits from -20 to 20. A bin is 0.0024 wide, and the rows of a bin count as ties. The AUC
is the probability that a positive row has a higher score than a negative row. Ties count half
(Hanley & McNeil, Radiology 143, 1982).
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from estimator_kit.model.objectives.streaming import ratio
from feature_specs.heads.metric_choices import MetricChoice

BINS = 16384
_LIMIT = 20.0


def histogram(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weights of positives and negatives in each bin of the logits, lowest bin first.

    Args:
      logits, labels, weights: float32 [rows]. A label between 0 and 1 counts partly as positive and
        partly as negative.

    Returns:
      float32 [2, BINS]: positives, negatives. A logit of 0 is in the last bin of the lower half,
      because it does not predict class 1 (a probability above 0.5).
    """
    bins = bins_of(logits, BINS)
    positives = tf.math.unsorted_segment_sum(labels * weights, bins, BINS)
    negatives = tf.math.unsorted_segment_sum((1 - labels) * weights, bins, BINS)
    return tf.stack([positives, negatives])


def bins_of(logits: tf.Tensor, bins: int) -> tf.Tensor:
    """The bin of each logit, lowest first: int32 in [0, bins). All bins are equally wide."""
    # Counting bins from the top puts a logit on an edge into the lower bin. The numbers are
    # float64, because with float32 logits just above 0 would fall into the lower half.
    clipped = tf.clip_by_value(tf.cast(logits, tf.float64), -_LIMIT, _LIMIT)
    position = (_LIMIT - clipped) * (bins / (2 * _LIMIT))
    return bins - 1 - tf.clip_by_value(tf.cast(position, tf.int32), 0, bins - 1)


def area_under_roc(counts: tf.Tensor) -> tf.Tensor:
    """The AUC of a histogram. NaN without positives or without negatives.

    With two positives in the bins 1 and 3 and one negative in bin 2, one of the two pairs is in the
    right order, so the AUC is 0.5.
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
    """Precision and recall at the lower edge of each bin."""
    true, false = tf.unstack(tf.cumsum(counts, axis=1, reverse=True))
    return (
        tf.math.divide_no_nan(true, true + false),
        tf.math.divide_no_nan(true, tf.reduce_sum(counts[0])),
    )


def confusion(counts: tf.Tensor) -> tf.Tensor:
    """[4]: true and false positives, false and true negatives, at the threshold 0.5."""
    below, above = tf.split(counts, 2, axis=1)
    tp, fp = tf.unstack(tf.reduce_sum(above, axis=1))
    fn, tn = tf.unstack(tf.reduce_sum(below, axis=1))
    return tf.stack([tp, fp, fn, tn])
