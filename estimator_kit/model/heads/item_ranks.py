"""Ranks of the next item in the whole catalogue, and the metrics that are functions of the rank.

    rank = ranks(scores, targets, seen)               # float32 [rows], 1 is the best
    rank_metric(MetricChoice("ndcg", 10), rank)       # float32 [rows]

Nothing is sampled. Of equal scores, the smaller id has the better rank, as in `tf.math.top_k`.
"""

from __future__ import annotations

import math
from typing import Optional

import tensorflow as tf

from feature_specs.heads.metric_choices import MetricChoice

# The id of places after the last step of a row, in labels [rows, steps].
NO_STEP = -2


def last_targets(labels: tf.Tensor) -> tf.Tensor:
    """The label of the last step of each row, int64 [rows]; NO_STEP for a row without steps.

    The rows (4, 7, -2) and (4, -1, -2) give 7 and -1.
    """
    steps = tf.math.count_nonzero(tf.not_equal(labels, NO_STEP), axis=1)
    places = tf.range(tf.shape(labels)[1], dtype=tf.int64)
    last = tf.equal(places, steps[:, tf.newaxis] - 1)
    found = tf.reduce_sum(tf.where(last, labels, tf.zeros_like(labels)), axis=1)
    return tf.where(steps > 0, found, NO_STEP * tf.ones_like(found))


def seen_mask(seen: tf.Tensor, items: int) -> tf.Tensor:
    """Whether each item is among the ids of a row: bool [rows, items].

    Args:
      seen: int64 [rows, steps]. A negative number is not an item.
      items: the number of items.
    """
    there = tf.where(seen >= 0)
    cells = tf.stack([there[:, 0], tf.gather_nd(seen, there)], axis=1)
    shape = tf.stack([tf.shape(seen, tf.int64)[0], tf.constant(items, tf.int64)])
    return tf.scatter_nd(cells, tf.ones_like(cells[:, 0]), shape) > 0


def ranks(scores: tf.Tensor, targets: tf.Tensor, seen: Optional[tf.Tensor] = None) -> tf.Tensor:
    """The rank of the target of each row among all items: float32 [rows], 1 for the best.

    The scores (1, 3, 3, 0) give the target 2 the rank 2.

    Args:
      scores: float32 [rows, items].
      targets: int64 [rows], in [0, items).
      seen: bool [rows, items], the items to leave out. A target among them has the rank infinity.
    """
    own = tf.gather(scores, targets, axis=1, batch_dims=1)[:, tf.newaxis]
    earlier = tf.range(scores.shape[1], dtype=tf.int64) < targets[:, tf.newaxis]
    ahead = (scores > own) | (tf.equal(scores, own) & earlier)
    if seen is not None:
        ahead &= ~seen
    found = tf.cast(tf.math.count_nonzero(ahead, axis=1) + 1, tf.float32)
    if seen is None:
        return found
    hidden = tf.gather(seen, targets, axis=1, batch_dims=1)
    return tf.where(hidden, tf.constant(math.inf), found)


def rank_metric(chosen: MetricChoice, rank: tf.Tensor) -> tf.Tensor:
    """The metric of each row, float32 [rows].

    For the ranks 1, 3 and 11: `mrr` is 1, 1/3 and 1/11; `recall_at_10` and `hit_rate_at_10` are 1,
    1 and 0; `ndcg_at_10` is 1, 1/2 and 0. The gain of the one relevant item is 1, so the best DCG
    is 1.
    """
    if chosen.name == "mrr":
        return 1 / rank
    inside = tf.cast(rank <= float(chosen.value or 1), tf.float32)
    if chosen.name == "ndcg":
        return tf.math.divide_no_nan(inside, tf.math.log(1 + rank) / math.log(2.0))
    return inside
