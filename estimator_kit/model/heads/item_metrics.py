"""The metrics of the head `next_item`: functions of the rank of the next item, and of all ranks.

    rank = ranks(scores, targets, seen)               # float32 [rows], 1 is the best
    rank_metric(MetricChoice(NDCG, 10), rank)       # float32 [rows]

Nothing is sampled. Of equal scores, the smaller id has the better rank, as in `tf.math.top_k`.

    metric(MetricChoice(COVERAGE, 10), scores, weights, hidden, seen)     # (value, update op)

Both metrics of all ranks are functions of one number for each item, which an evaluation sums over
its rows. So they are exact, and do not depend on the batches. w is the weight of a row, T its first
k items, and S the items at its steps, each once.

`coverage` is the share of the catalogue that is in T for at least one row with a weight.

`popularity_lift` is how much more popular the first k items are than the items that users chose
themselves (Abdollahpouri et al., The Connection Between Popularity Bias, Calibration, and Fairness
in Recommendation, RecSys 2020), with all rows as one group of users. The popularity of an item is
how many rows have it at their steps:

    popularity_i = sum_rows w [i in S]
    lift = sum_rows w mean_T(popularity) / sum_rows w mean_S(popularity) - 1

Rows without steps do not count. The popularity comes from the evaluated rows, so it needs nothing
of the training. With `--targets=leave_one_out`, their steps are the items of the training data. A
row counts itself in the popularity of its items: with few rows for each item, the lift is too low.

Three rows with the steps (a), (a, b) and (a, c), and the first item a for each: the popularity of
a is 3, of b and c 1. The lift at 1 is (3 + 3 + 3) / (3 + 2 + 2) - 1 = 0.286, and the coverage 1/3.
"""

from __future__ import annotations

import math
from typing import Optional

import tensorflow as tf

from estimator_kit.model.heads.streaming import Metric, ratio, streaming_sum
from estimator_kit.model.heads.top_items import first_items
from feature_specs.heads.metrics import MetricChoice

# The id of places after the last step of a row, in labels [rows, steps].
NO_STEP = -2


def last_targets(labels: tf.Tensor) -> tf.Tensor:
    """The label of the last step of each row, int64 [rows]; NO_STEP for a row without steps.

    The rows (4, 7, -2) and (4, -1, -2) give 7 and -1.
    """
    steps = tf.math.count_nonzero(tf.not_equal(labels, NO_STEP), axis=1)
    places = tf.range(tf.shape(labels)[1], dtype=tf.int64)
    last = tf.equal(places, steps[:, tf.newaxis] - 1)
    last_labels = tf.reduce_sum(tf.where(last, labels, tf.zeros_like(labels)), axis=1)
    return tf.where(steps > 0, last_labels, NO_STEP * tf.ones_like(last_labels))


def seen_mask(seen: tf.Tensor, items: int) -> tf.Tensor:
    """Whether each item is among the ids of a row: bool [rows, items].

    Args:
      seen: int64 [rows, steps]. A negative number is not an item.
      items: the number of items.
    """
    places = tf.where(seen >= 0)
    cells = tf.stack([places[:, 0], tf.gather_nd(seen, places)], axis=1)
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
    target_ranks = tf.cast(tf.math.count_nonzero(ahead, axis=1) + 1, tf.float32)
    if seen is None:
        return target_ranks
    hidden = tf.gather(seen, targets, axis=1, batch_dims=1)
    return tf.where(hidden, tf.constant(math.inf), target_ranks)


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
    if chosen.name in ("recall", "hit_rate"):
        return inside
    raise KeyError(chosen.name)


METRICS = ("coverage", "popularity_lift")


def metric(
    chosen: MetricChoice,
    scores: tf.Tensor,
    weights: tf.Tensor,
    hidden: Optional[tf.Tensor],
    seen: Optional[tf.Tensor],
) -> Metric:
    """The value of a metric, and the op that adds a batch.

    Args:
      chosen: one of `METRICS`, with its k.
      scores: float32 [rows, items].
      weights: float32 [rows]; 0 masks the row.
      hidden: bool [rows, items], the items to leave out; None leaves out none.
      seen: int64 [rows, steps], the items at the steps. A negative number is not an item. Only
        `popularity_lift` needs it.
    """
    items = scores.shape[1]
    gone = tf.zeros_like(scores, tf.bool) if hidden is None else hidden
    first, _ = first_items(scores, gone, tf.constant(chosen.value))
    weights = tf.cast(weights, tf.float64)
    if chosen.name == "coverage":
        totals, update = streaming_sum(summed(first, weights, items), chosen.label)
        covered = tf.cast(tf.math.count_nonzero(totals), tf.float64)
        # It is unknown without a row, and not 0.
        return ratio(
            covered, tf.where(covered > 0, tf.constant(float(items), tf.float64), 0)
        ), update
    assert seen is not None, "the labels of an evaluation have the items of the steps"
    steps = once(seen)
    weights = tf.where(tf.reduce_any(steps >= 0, axis=1), weights, tf.zeros_like(weights))
    sums = [
        summed(steps, weights, items),
        summed(first, _of_a_mean(first, weights), items),
        summed(steps, _of_a_mean(steps, weights), items),
    ]
    totals, update = streaming_sum(tf.stack(sums), chosen.label)
    popularity, recommended, taken = tf.unstack(totals)
    lifted = ratio(tf.reduce_sum(recommended * popularity), tf.reduce_sum(taken * popularity))
    return lifted - 1, update


def once(ids: tf.Tensor) -> tf.Tensor:
    """The ids of each row, each once, and -1 in the other places: int64 [rows, n].

    The row (7, 2, 7, -2) gives (-1, 2, 7, -1).
    """
    ordered = tf.sort(ids, axis=1)
    is_new = tf.concat(
        [tf.ones_like(ordered[:, :1], tf.bool), tf.not_equal(ordered[:, 1:], ordered[:, :-1])],
        axis=1,
    )
    return tf.where(is_new & (ordered >= 0), ordered, -tf.ones_like(ordered))


def _of_a_mean(ids: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weight of each item of a row in a mean over its items: float64 [rows]."""
    counts = tf.math.count_nonzero(ids >= 0, axis=1, dtype=tf.float64)
    return tf.math.divide_no_nan(weights, counts)


def summed(ids: tf.Tensor, weights: tf.Tensor, items: int) -> tf.Tensor:
    """For each item, the sum of the weights of the rows with it: float64 [items].

    A negative id does not count.
    """
    values = tf.where(ids >= 0, weights[:, tf.newaxis], tf.zeros([], tf.float64))
    return tf.math.unsorted_segment_sum(values, ids, items)
