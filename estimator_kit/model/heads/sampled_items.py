"""Samples items for the losses of the head `next_item`.

    drawn = draw(options, targets, items, "objectives/next")

All steps of a batch share the sampled items. For each item, `Sampled` has log q, the logarithm of
the expected number of times that it is sampled. The softmax of s - log q over the label and a
sample estimates the softmax of s over all items.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimator_kit.model.heads.item_frequency import log_probabilities, log_probability

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
    batch, and estimates during training how often an item is in a batch (`item_frequency`).
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
