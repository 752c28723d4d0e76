"""How often an item is in a batch, estimated while training reads the batches.

Yi et al., RecSys 2019, algorithm 2, on ids in the place of hashes. For each id two numbers are
kept: A, the last step that had it, and B, a moving average of the steps between two such,

    B = (1 - rate) B + rate (t - A),    A = t

and its probability is 1 / B. When an id comes for the first time, at step t, B is t: the paper's
B would start from nothing and take the id for a frequent one. Both are variables of the checkpoint,
so that a restart goes on where it was.
"""

from __future__ import annotations

import tensorflow as tf


def log_probability(ids: tf.Tensor, size: int, *, rate: float) -> tf.Tensor:
    """log p of each row's item after this batch: float32 [rows], without a gradient.

    The variables `last_step` and `gap`, [size + 1], follow with the graph's update ops, which
    `minimize` runs. An id every step has p = 1; one that first came at step 8 has 1/8.

    Args:
      ids: int64 [rows] in [-1, size); -1, no id, counts as an item of its own.
      size: number of ids.
      rate: how fast the average follows, in (0, 1]; 0.05 looks back on some 20 occurrences.
    """
    v1 = tf.compat.v1
    last_step, gap = (
        v1.get_variable(
            name, [size + 1], dtype, initializer=v1.zeros_initializer(), trainable=False
        )
        for name, dtype in (("last_step", tf.int64), ("gap", tf.float32))
    )
    step = tf.convert_to_tensor(v1.train.get_or_create_global_step()) + 1
    seen, row_of = tf.unique(tf.where(ids >= 0, ids, size * tf.ones_like(ids)))
    before = tf.gather(last_step, seen)
    waited = tf.cast(step - before, tf.float32)
    average = (1 - rate) * tf.gather(gap, seen) + rate * waited
    updated = tf.where(before > 0, average, waited)
    with tf.control_dependencies([updated]):  # All is read before it is written.
        update = tf.group(
            v1.scatter_update(last_step, seen, tf.fill(tf.shape(seen), step)),
            v1.scatter_update(gap, seen, updated),
        )
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return tf.stop_gradient(-tf.math.log(tf.gather(updated, row_of)))
