"""What heads of classes share: names of classes, metrics of four counts, and a calibration error.

counts, update = streaming_sum(confusion(logits > 0, labels, weights), "confusion")
metrics_of_confusion(counts, with_counts=False)["f1"]

The four counts are the weights of true and false positives, false and true negatives.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.model.heads.base import Head
from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum
from estimator_kit.tf_estimator import estimator
from feature_specs.label import Label

# The most classes whose words `predict` repeats in each row. More would be most of an answer.
MOST_WORDS = 1000


def class_names(label: Label, count: int) -> tf.Tensor:
    """string [count]: the vocabulary of the label, or the ids as text if it has none."""
    return tf.constant(_names(label, count))


def _names(label: Label, count: int) -> list[str]:
    return list(label.vocabulary or map(str, range(count)))


def classification(label: Label, probabilities: tf.Tensor) -> Any:
    """The ExportOutput of the signature `classify`: the names and scores of all classes.

    Args:
      label: the label with the classes.
      probabilities: float32 [rows, classes].
    """
    classes = _repeated(label, int(probabilities.shape[1]), probabilities)
    return estimator.export.ClassificationOutput(scores=probabilities, classes=classes)


def words_of_classes(head: Head, predictions: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The names of all classes in the order of `probabilities`: string [rows, n].

    The signature `predict` has them in addition to the predictions, under the name that
    TensorFlow's heads give them: `all_classes`, or `classes` if no class is the predicted one.
    Empty if the head has no classes, or more than `MOST_WORDS`; `classify` has any number.
    """
    count = head.config.classes
    if count is None or count > MOST_WORDS:
        return {}
    name = "all_classes" if "classes" in predictions else "classes"
    return {name: _repeated(head.label, count, predictions["probabilities"])}


def _repeated(label: Label, count: int, probabilities: tf.Tensor) -> tf.Tensor:
    return tf.tile(tf.constant([_names(label, count)]), [tf.shape(probabilities)[0], 1])


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
