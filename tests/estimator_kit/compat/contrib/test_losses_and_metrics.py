"""tf.contrib.losses and tf.contrib.metrics take the predictions before the labels."""

import numpy as np
import tensorflow.compat.v1 as tf

from estimator_kit.compat.contrib import losses, metrics

PREDICTIONS = np.array([0.1, 0.7, 0.4, 0.9], np.float32)
LABELS = np.array([0.0, 1.0, 1.0, 1.0], np.float32)


def test_losses_are_means_and_are_collected(run):
    predictions, labels = tf.constant(PREDICTIONS), tf.constant(LABELS)
    squared = losses.mean_squared_error(predictions, labels, weights=2.0)
    log = losses.log_loss(predictions, labels)
    assert losses.get_losses() == [squared, log]
    values = run([squared, log, losses.get_total_loss()])
    expected = [2 * np.mean((PREDICTIONS - LABELS) ** 2)]
    right = np.where(LABELS == 1, PREDICTIONS, 1 - PREDICTIONS)
    expected += [-np.mean(np.log(right + 1e-7))]
    np.testing.assert_allclose(values, [*expected, sum(expected)], rtol=1e-5)


def test_triplet_semihard_loss(run):
    """On a line at 0, 1 (one class) and 1.5 (another), with margin 1.

    For the pair (0, 1), squared distance 1, the negative is at 2.25: 1 + 1 - 2.25 < 0 counts as 0.
    For (1, 0), no negative is farther than the positive; the farthest is at 0.25: 1 + 1 - 0.25.
    """
    points = tf.constant([[0.0], [1.0], [1.5]])
    loss = losses.metric_learning.triplet_semihard_loss(tf.constant([0, 0, 1]), points)
    np.testing.assert_allclose(run(loss), (0 + 1.75) / 2, rtol=1e-5)


def test_streaming_metrics_add_up_batches(run):
    predictions, labels = tf.constant(PREDICTIONS), tf.constant(LABELS)
    classes = tf.cast(predictions > 0.5, tf.int64)
    made = [
        metrics.streaming_accuracy(classes, tf.cast(labels, tf.int64)),
        metrics.streaming_precision(classes, tf.cast(labels, tf.int64)),
        metrics.streaming_recall(classes, tf.cast(labels, tf.int64)),
        metrics.streaming_root_mean_squared_error(predictions, labels),
        metrics.streaming_pearson_correlation(predictions, labels),
    ]
    update = [operation for _, operation in made]
    expected = [0.75, 1, 2 / 3, np.sqrt(np.mean((PREDICTIONS - LABELS) ** 2))]
    expected += [np.corrcoef(PREDICTIONS, LABELS)[0, 1]]
    values = run(update, update, [value for value, _ in made])
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_streaming_concat_keeps_every_value(run):
    value, update = metrics.streaming_concat(tf.constant(PREDICTIONS))
    np.testing.assert_array_equal(run(update, update, value), np.tile(PREDICTIONS, 2))


def test_aggregate_metric_map_has_names(run):
    values, updates = metrics.aggregate_metric_map(
        {"mean": metrics.streaming_mean(tf.constant([1.0, 3.0]))}
    )
    assert run(list(updates.values()), values) == {"mean": 2}
