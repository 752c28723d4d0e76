"""Functions on the steps of sequences: masks, and pooling to one vector per row.

Steps are float32 [rows, steps, width], padded at the end of each row. `lengths`, int64 [rows], has
the number of real steps. The results do not depend on the values or the number of padded steps.
"""

from __future__ import annotations

from typing import Literal

import tensorflow as tf

Pooling = Literal["last", "max", "mean", "sum"]


def step_mask(steps: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """True for real steps and False for padding: bool [rows, steps, 1]."""
    return tf.sequence_mask(lengths, tf.shape(steps)[1])[:, :, tf.newaxis]


def pool_steps(steps: tf.Tensor, lengths: tf.Tensor, pooling: Pooling) -> tf.Tensor:
    """The last, the largest, the mean or the sum of each row's steps: float32 [rows, width].

    A row without steps gets zeros. The steps 1, 5 and 3 of width 1 give 3, 5, 3 and 9.
    """
    mask = step_mask(steps, lengths)
    there = tf.where(mask, steps, tf.zeros_like(steps))
    if pooling == "max":
        largest = tf.reduce_max(tf.where(mask, steps, steps.dtype.min * tf.ones_like(steps)), 1)
        return tf.where(lengths[:, tf.newaxis] > 0, largest, tf.zeros_like(largest))
    if pooling == "last":
        last = tf.one_hot(lengths - 1, tf.shape(steps)[1])
        return tf.einsum("ns,nsw->nw", last, there)
    total = tf.reduce_sum(there, axis=1)
    if pooling == "sum":
        return total
    return tf.math.divide_no_nan(total, tf.cast(lengths, tf.float32)[:, tf.newaxis])
