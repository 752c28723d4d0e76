"""From the losses of rows to the loss of a batch, or of a whole evaluation.

The same four sums make both: of a batch they are taken at once, of an evaluation they are streamed,
so that the metric `loss` is the reduction of all rows as if they were one batch.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

Divide = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def sums(losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """[sum(weight * loss), sum(weight), rows, rows with a weight], in the dtype of both."""
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
    """The loss of what `sums` gave.

    Losses 1, 3 and 5 with weights 1, 0.5 and 0 make

        mean                       (1 + 1.5) / 1.5 = 1.667
        sum                        1 + 1.5         = 2.5
        sum_over_batch_size        2.5 / 3         = 0.833
        sum_over_nonzero_weights   2.5 / 2         = 1.25

    `mean` is the default: it keeps the size of the loss, and so of the gradients, the same however
    many rows are masked. The other names are those of `tf.compat.v1.losses.Reduction` and Keras.

    Args:
      parts: [4].
      reduction: one of the names above.
      divide: what division by 0 gives.
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
