"""Samples items for the losses of the head `next_item`.

    drawn = draw(options, targets, items, "objectives/next")

All steps of a batch share the sampled items. For each item, `Sampled` has log q, the logarithm of
the expected number of times that it is sampled. The softmax of s - log q over the label and a
sample estimates the softmax of s over all items.

Samples from the batch need the probability that an item is in a batch. It is estimated during
training (Yi et al., RecSys 2019, algorithm 2, with ids instead of hashes). For each id, A is kept,
the last step whose batch contained the id, and B, a moving average of the steps between two such
batches:

    B = (1 - rate) B + rate (t - A),    A = t

The probability of the id is 1 / B. If an id first occurs at step t, B starts at t. (In the paper B
starts at 0, which would treat a new id as frequent.) A and B are variables of the checkpoint, so
that a restart continues the estimate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
    unique_ids, place = tf.unique(tf.concat([seen, others], axis=0))
    gaps = tf.concat([updated, tf.gather(gap, unique_ids[tf.size(seen) :])], axis=0)
    with tf.control_dependencies([gaps]):  # Read all values before any is written.
        update = tf.group(
            v1.scatter_update(last_step, seen, tf.fill(tf.shape(seen), step)),
            v1.scatter_update(gap, seen, updated),
        )
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    log_p = -tf.math.log(tf.where(gaps > 0, gaps, float("inf") * tf.ones_like(gaps)))
    of_others = tf.gather(log_p, place[tf.size(seen) :])
    return tf.stop_gradient(tf.gather(log_p, row_of)), tf.stop_gradient(of_others)


# How fast the estimate of in-batch frequencies follows: an average over about 20 occurrences.
_RATE = 0.05

_SAMPLERS = {
    "log_uniform": tf.random.log_uniform_candidate_sampler,
    "uniform": tf.random.uniform_candidate_sampler,
}


class Sampled(NamedTuple):
    """Sampled items. Only `mixed` may sample an item twice: once in each of its halves.

    Attributes:
      ids: int64 [samples].
      log_q: float32 [samples], log q of each sampled item.
      log_q_targets: float32 [n], log q of the target of each step.
    """

    ids: tf.Tensor
    log_q: tf.Tensor
    log_q_targets: tf.Tensor


def draw(options: Any, targets: tf.Tensor, items: int, name: str) -> Sampled:
    """Samples items for a batch.

    `log_uniform` and `uniform` use TensorFlow's samplers. `in_batch` takes the targets of the
    batch, and estimates during training how often an item is in a batch.
    `mixed` takes one half from the batch and the other half uniformly.

    Args:
      options: the options of the loss in the spec, with `samples` and `negatives`.
      targets: int64 [n], the items at the steps of a batch.
      items: the number of items.
      name: the scope of the variables of `in_batch` and `mixed`.
    """
    count = min(options.samples, items)
    if options.negatives == "mixed":
        return _mixed(targets, items, count, name)
    if options.negatives == "in_batch":
        return _in_batch(targets, items, count, name)
    ids, of_targets, of_ids = _SAMPLERS[options.negatives](
        targets[:, tf.newaxis], num_true=1, num_sampled=count, unique=True, range_max=items
    )
    return Sampled(ids, tf.math.log(of_ids), tf.math.log(of_targets[:, 0]))


def _in_batch(targets: tf.Tensor, items: int, count: int, name: str) -> Sampled:
    """At most `count` of the different items of a batch.

    If a batch has more, all of its items are equally likely to stay. That changes log q of all
    items by the same number, which a softmax does not see.
    """
    with tf.compat.v1.variable_scope(f"{name}/item_frequency"):
        log_p = log_probability(targets, items, rate=_RATE)
    ids, place = tf.unique(targets, out_idx=tf.int64)
    log_q = tf.math.unsorted_segment_max(log_p, place, tf.size(ids))
    kept = tf.random.shuffle(tf.range(tf.size(ids)))[:count]
    return Sampled(tf.gather(ids, kept), tf.gather(log_q, kept), log_p)


def _mixed(targets: tf.Tensor, items: int, count: int, name: str) -> Sampled:
    """Half of the samples from the batch, and half uniformly from all items.

    Yang et al., Mixed Negative Sampling for Learning Two-tower Neural Networks in Recommendations,
    WWW 2020 Companion. The items of a batch are mostly popular ones, so an item that nobody takes
    would never be a negative. The samples of both halves count together, each with the q of the
    mixture, which is the expected number of times that an item is sampled:

        q_j = s p_j + n / items

    p_j is the probability that item j is in a batch, s is the share of the different items of the
    batch that stay, and n is the number of uniform samples. With 1,000 items and 10 uniform
    samples, an item in every second batch, of which a quarter stays, has q = 0.5 / 4 + 0.01 =
    0.135. An item that was in no batch has q = 0.01.
    """
    of_batch = count // 2
    uniform = count - of_batch
    # By symmetry, each item is among the different samples with the probability uniform / items.
    drawn, _, _ = tf.random.uniform_candidate_sampler(
        targets[:1, tf.newaxis], num_true=1, num_sampled=uniform, unique=True, range_max=items
    )
    present, _ = tf.unique(targets)
    kept = tf.random.shuffle(present)[:of_batch]
    ids = tf.concat([kept, drawn], axis=0)
    with tf.compat.v1.variable_scope(f"{name}/item_frequency"):
        of_targets, of_ids = log_probabilities(targets, ids, items, rate=_RATE)
    share = tf.math.divide_no_nan(
        tf.cast(tf.size(kept), tf.float32), tf.cast(tf.size(present), tf.float32)
    )

    def log_q(log_p: tf.Tensor) -> tf.Tensor:
        return tf.math.log(share * tf.exp(log_p) + uniform / items)

    return Sampled(ids, log_q(of_ids), log_q(of_targets))
