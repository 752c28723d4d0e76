"""Reduces the losses of rows to the loss of a batch or of a whole evaluation.

Both use the same four sums. An evaluation streams them over its batches, so that the metric `loss`
is the reduction of all rows as if they were one batch.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

Divide = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def sums(losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """[sum(weight * loss), sum(weight), rows, rows whose weight is not 0]."""
    rows = tf.shape(weights)[0]
    return tf.stack(
        [
            tf.reduce_sum(losses * weights),
            tf.reduce_sum(weights),
            tf.cast(rows, weights.dtype),
            tf.cast(tf.math.count_nonzero(weights), weights.dtype),
        ]
    )


def reduced(parts: tf.Tensor, reduction: str, *, divide: Divide) -> tf.Tensor:
    """The loss from the result of `sums`.

    The losses 1, 3 and 5 with the weights 1, 0.5 and 0 give

        mean                       (1 + 1.5) / 1.5 = 1.667
        sum                        1 + 1.5         = 2.5
        sum_over_batch_size        2.5 / 3         = 0.833
        sum_over_nonzero_weights   2.5 / 2         = 1.25

    `mean` is the default, because the scale of the loss and of the gradients does not depend on the
    number of masked rows. `tf.compat.v1.losses.Reduction` and Keras use the other names.

    Args:
      parts: [4], the result of `sums`.
      reduction: one of the names above.
      divide: the division, which defines the result for a denominator of 0.
    """
    total, weight_sum, rows, nonzero = tf.unstack(parts)
    if reduction == "sum":
        return total
    below = {
        "mean": weight_sum,
        "sum_over_batch_size": rows,
        "sum_over_nonzero_weights": nonzero,
    }
    return divide(total, below[reduction])
