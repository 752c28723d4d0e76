"""Metrics of four counts: true and false positives, false and true negatives, by weight.

metrics_of_confusion(counts)["f1"]
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.objectives.streaming import ratio

_NAMES = ("true_positives", "false_positives", "false_negatives", "true_negatives")


def metrics_of_confusion(counts: tf.Tensor, *, with_counts: bool) -> dict[str, tf.Tensor]:
    """accuracy, precision, recall and f1, and the four counts by their names if asked for.

    The counts 3, 1, 2 and 4: accuracy 7/10, precision 3/4, recall 3/5, f1 6/9. NaN where nothing
    was counted.

    Args:
      counts: [4], in the order of the first line.
      with_counts: whether the counts are metrics, too.
    """
    tp, fp, fn, tn = tf.unstack(counts)
    values = {
        "accuracy": ratio(tp + tn, tp + fp + fn + tn),
        "precision": ratio(tp, tp + fp),
        "recall": ratio(tp, tp + fn),
        "f1": ratio(2 * tp, 2 * tp + fp + fn),
    }
    if with_counts:
        values.update(zip(_NAMES, (tp, fp, fn, tn)))
    return values
