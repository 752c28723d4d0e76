"""Metrics of several exclusive classes, from a streamed confusion matrix.

The matrix is float64 [n, n], with one row per label and one column per prediction.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.model.heads.streaming import ratio


def confusion_matrix(
    labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor, classes: int
) -> tf.Tensor:
    """The weight of each pair of label and prediction in a batch: float64 [classes, classes]."""
    pairs = tf.math.unsorted_segment_sum(
        tf.cast(weights, tf.float64), labels * classes + predictions, classes * classes
    )
    return tf.reshape(pairs, [classes, classes])


def mean_iou(matrix: tf.Tensor) -> tf.Tensor:
    """The mean of hits / (labels + predictions - hits) over the classes that occur.

    This is intersection over union, or the Jaccard index. A class occurs if it is a label or a
    prediction. For [[1, 1], [0, 2]] it is (1/2 + 2/3) / 2 = 0.5833.
    """
    hits, labels, predictions = _margins(matrix)
    return _mean(hits, labels + predictions - hits)


def macro_f1(matrix: tf.Tensor) -> tf.Tensor:
    """The mean of F1, 2 hits / (labels + predictions), over the classes that occur.

    For [[1, 1], [0, 2]] it is (2/3 + 4/5) / 2 = 0.7333.
    """
    hits, labels, predictions = _margins(matrix)
    return _mean(2 * hits, labels + predictions)


def _margins(matrix: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    labels, predictions = tf.reduce_sum(matrix, axis=1), tf.reduce_sum(matrix, axis=0)
    return tf.linalg.diag_part(matrix), labels, predictions


def _mean(numerators: tf.Tensor, denominators: tf.Tensor) -> tf.Tensor:
    values = tf.math.divide_no_nan(numerators, denominators)
    occur = tf.cast(denominators > 0, tf.float64)
    return ratio(tf.reduce_sum(values * occur), tf.reduce_sum(occur))
