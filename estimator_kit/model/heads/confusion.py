"""Metrics of four weighted counts: true and false positives, false and true negatives.

counts, update = streaming_sum(confusion(logits > 0, labels, weights), "confusion")
metrics_of_confusion(counts, with_counts=False)["f1"]
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.heads.streaming import ratio

_NAMES = ("true_positives", "false_positives", "false_negatives", "true_negatives")


def confusion(guesses: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The four counts of a batch: float64 [4], in the order of `metrics_of_confusion`.

    Args:
      guesses: bool, whether class 1 is predicted.
      labels: float32 in the same shape, 0 or 1.
      weights: float32, in a shape that broadcasts to it.
    """
    guessed = tf.cast(guesses, tf.float32)
    pairs = (
        (guessed, labels),
        (guessed, 1 - labels),
        (1 - guessed, labels),
        (1 - guessed, 1 - labels),
    )
    return tf.stack([tf.reduce_sum(tf.cast(g * y * weights, tf.float64)) for g, y in pairs])


def metrics_of_confusion(counts: tf.Tensor, *, with_counts: bool) -> dict[str, tf.Tensor]:
    """accuracy, precision, recall and f1, and on request the four counts.

    The counts 3, 1, 2 and 4 give the accuracy 7/10, the precision 3/4, the recall 3/5 and the F1
    6/9. A metric is NaN if its denominator is 0.

    Args:
      counts: [4], true and false positives, false and true negatives.
      with_counts: whether to add the counts as metrics.
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
