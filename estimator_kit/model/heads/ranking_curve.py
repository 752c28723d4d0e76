"""AUC and other metrics of all thresholds, from the weights of positives and negatives by score.

    ranking_curve.area_under_roc(bins.counts)     # of `score_bins.streaming_bins`

They depend on the order of the scores alone, so their arguments do not contain the scores. The rows
of one column have the same score and count as ties. The AUC is the probability that a positive row
has a higher score than a negative row. Ties count half (Hanley & McNeil, Radiology 143, 1982).

`counts` is float64 [2, scores], with a column for each different score, the lowest first: the
weights of the positives and of the negatives.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

from estimator_kit.model.heads.streaming import ratio
from feature_specs.heads.metric_choices import MetricChoice


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
