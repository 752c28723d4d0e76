"""Estimates during training how often an item is in a batch.

Yi et al., RecSys 2019, algorithm 2, with ids instead of hashes. For each id, the module keeps A,
the last step whose batch contained the id, and B, a moving average of the steps between two such
batches:

    B = (1 - rate) B + rate (t - A),    A = t

The probability of the id is 1 / B. If an id first occurs at step t, B starts at t. (In the paper B
starts at 0, which would treat a new id as frequent.) A and B are variables of the checkpoint, so
that a restart continues the estimate.
"""

from __future__ import annotations

import tensorflow as tf


def log_probability(ids: tf.Tensor, size: int, *, rate: float) -> tf.Tensor:
    """log p of each row's item after this batch: float32 [rows], without a gradient.

    The update ops of the graph, which `minimize` runs, update the variables `last_step` and `gap`,
    [size + 1]. An id in every batch has p = 1. An id that first occurs at step 8 has p = 1/8.

    Args:
      ids: int64 [rows] in [-1, size). -1, a missing id, counts as a separate item.
      size: the number of ids.
      rate: how fast the average follows, in (0, 1]. 0.05 averages over about 20 occurrences.
    """
    return log_probabilities(ids, ids[:0], size, rate=rate)[0]


def log_probabilities(
    ids: tf.Tensor, others: tf.Tensor, size: int, *, rate: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """log p of each row's item, as `log_probability`, and of other items, which are only read.

    Args:
      ids: int64 [rows] in [-1, size), the ids of the batch.
      others: int64 [n] in [0, size). An id that has been in no batch has p = 0, so log p = -inf.
      size, rate: see `log_probability`.
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
    # Tasks that step together have one step for several batches. The difference may be 0 there.
    waited = tf.maximum(tf.cast(step - before, tf.float32), 1.0)
    average = (1 - rate) * tf.gather(gap, seen) + rate * waited
    updated = tf.where(before > 0, average, waited)
    # The ids of the batch come first, so those that follow are not in it.
    known, place = tf.unique(tf.concat([seen, others], axis=0))
    gaps = tf.concat([updated, tf.gather(gap, known[tf.size(seen) :])], axis=0)
    with tf.control_dependencies([gaps]):  # Read all values before any is written.
        update = tf.group(
            v1.scatter_update(last_step, seen, tf.fill(tf.shape(seen), step)),
            v1.scatter_update(gap, seen, updated),
        )
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    log_p = -tf.math.log(tf.where(gaps > 0, gaps, float("inf") * tf.ones_like(gaps)))
    of_others = tf.gather(log_p, place[tf.size(seen) :])
    return tf.stop_gradient(tf.gather(log_p, row_of)), tf.stop_gradient(of_others)
