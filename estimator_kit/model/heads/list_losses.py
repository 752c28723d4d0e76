"""The losses of lists of rows, for the head `ranking`.

The rows of a group in a batch form a list (`make_lists`). `list_losses` returns a loss and a weight
for each list, which do not depend on the other lists of the batch. s are the scores and y the
labels of a list. For a list with the scores (0, 1) and the labels (1, 0), the losses are:

    pairwise_logistic        log(1 + e^1)                                        1.3133
    pairwise_hinge           max(0, 1 + 1)                                       2
    pairwise_soft_zero_one   1 - sigmoid(-1)                                     0.7311
    softmax                  -log(e^0 / (e^0 + e^1))                             1.3133
    unique_softmax           the same times 2^1 - 1                              1.3133
    list_mle                 -log(e^0 / (e^0 + e^1)) - log(e^1 / e^1)            1.3133
    approx_ndcg              -1 / log2(1 + rank), rank = 1 + sigmoid(1 / 0.1)   -0.6309

Each function has its formula and its source. They are the losses of TensorFlow Ranking 0.5.5, with
three differences. `pairwise_logistic` has the gradient of its formula also for equal scores, where
the code of TensorFlow Ranking has the gradient 0, so that a model that starts with equal scores
never learns. Equal labels (`list_mle`) and equal scores (`lambda_weight`) are not put in a random
order. And the longest list of the batch does not change the losses of shorter lists.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_kit.model.heads.base import closed
from feature_specs.heads import HEADS
from feature_specs.heads.losses import LossEntry
from input_pipelines.reading.row_groups import row_changes

# The label of a place without a row. Labels of rows are 0 or more.
_NO_ROW = -1.0

# The score of a place without a row in a softmax: its weight is exactly 0, and so is its gradient.
_NO_SCORE = -1e9


class Lists(NamedTuple):
    """The lists of a batch that have an order: each has at least two different labels.

    The last list is not from the batch. It has the scores (0, 0), the labels (1, 0) and the weights
    (1, 1), because several ops fail or have no gradient without any list.

    Attributes:
      scores, labels, weights: float32 [lists, longest]. A place without a row has the label -1.
      present: bool [lists, longest], whether a place has a row.
      rows: float32 scalar, the number of rows of the batch in these lists.
    """

    scores: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor
    present: tf.Tensor
    rows: tf.Tensor


def make_lists(group: tf.Tensor, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Lists:
    """The rows of a batch as lists. The rows of a group may be anywhere in the batch.

    If two epochs meet in a batch, a list may contain each of its rows twice (see `row_groups`).

    Rows without a group or with weight 0 are left out. Then lists with equal labels are left out,
    including rows that are alone in their group.

    Args:
      group: int64 [rows], hashes. Negative numbers mean no group.
      scores, labels, weights: float32 [rows].
    """
    keep = (group >= 0) & (weights > 0)
    group = tf.boolean_mask(group, keep)
    order = tf.argsort(group, stable=True)
    columns = tf.boolean_mask(tf.stack([scores, labels, weights], axis=1), keep)
    columns = tf.gather(columns, order)
    segment = tf.cumsum(tf.cast(row_changes(tf.gather(group, order)), tf.int64)) - 1
    groups = tf.reduce_max(tf.concat([[-1], segment], axis=0)) + 2
    segment = tf.concat([segment, [groups - 1, groups - 1]], axis=0)
    columns = tf.concat([columns, [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]], axis=0)
    highest = tf.math.unsorted_segment_max(columns[:, 1], segment, groups)
    lowest = tf.math.unsorted_segment_min(columns[:, 1], segment, groups)
    differs = highest > lowest
    lists = tf.ragged.boolean_mask(
        tf.RaggedTensor.from_value_rowids(columns, segment, groups, validate=False), differs
    )
    lengths = lists.row_lengths()
    dense = lists.to_tensor(default_value=tf.constant([0.0, _NO_ROW, 0.0]))
    scores, labels, weights = tf.unstack(dense, axis=2)
    present = tf.sequence_mask(lengths, tf.shape(dense, tf.int64)[1])
    rows = tf.cast(tf.reduce_sum(lengths) - 2, tf.float32)
    return Lists(scores, labels, weights, present, rows)


def list_losses(loss: LossEntry, lists: Lists) -> tuple[tf.Tensor, tf.Tensor]:
    """The loss of each list of a batch, float32 [lists - 1], and its weight, in the same shape.

    A pairwise loss is the mean over the pairs of rows with different labels, weighted by the weight
    of the better row. The weight of the list is the mean of these weights. For the other losses,
    the weight of a list is the mean of the weights of its rows, weighted by their labels. softmax
    multiplies the labels by the weights. Lists whose rows have weight 1 therefore count equally,
    independent of their length.
    """
    if loss.name() in _PAIRS:
        losses, weights = _of_pairs(loss, lists)
        return losses[:-1], weights[:-1]
    labels = _or_zero(lists, lists.labels)
    weights = tf.reduce_sum(lists.weights * labels, axis=1) / tf.reduce_sum(labels, axis=1)
    losses = _LISTS[loss.name()](lists, **dict(loss.options))
    return losses[:-1], weights[:-1]


# --- Pairs ---------------------------------------------------------------------------------------


def _of_pairs(loss: LossEntry, lists: Lists) -> tuple[tf.Tensor, tf.Tensor]:
    """The mean cost of the pairs of each list, and the mean weight of their better rows."""
    both = lists.present[:, :, tf.newaxis] & lists.present[:, tf.newaxis, :]
    better = lists.labels[:, :, tf.newaxis] > lists.labels[:, tf.newaxis, :]
    pairs = tf.cast(better & both, tf.float32)
    weights = pairs * lists.weights[:, :, tf.newaxis]
    costs = pair_costs(loss, lists.scores[:, :, tf.newaxis] - lists.scores[:, tf.newaxis, :])
    if loss.options.lambda_weight is not None:
        costs *= tf.stop_gradient(ndcg_changes(lists))
    weighted = tf.reduce_sum(weights, axis=[1, 2])
    total = tf.reduce_sum(costs * weights, axis=[1, 2])
    return total / weighted, weighted / tf.reduce_sum(pairs, axis=[1, 2])


def pair_costs(loss: LossEntry, leads: tf.Tensor) -> tf.Tensor:
    """The costs of pairs, from d, the score of the better row minus the score of the other row.

        pairwise_logistic        log(1 + exp(-d))    RankNet (Burges et al., 2005)
        pairwise_hinge           max(0, 1 - d)       Joachims, 2002
        pairwise_soft_zero_one   1 - sigmoid(d)

    For d = -1, they are 1.3133, 2 and 0.7311. For d = 0, the gradients are -1/2, -1 and -1/4.
    """
    return _PAIRS[loss.name()](leads)


def ndcg_changes(lists: Lists) -> tf.Tensor:
    """`lambda_weight: ndcg`: the change of NDCG if two rows swapped places, times the rows.

    LambdaLoss (Wang et al., "The LambdaLoss Framework for Ranking Metric Optimization", 2018):

        |G_i - G_j| |1 / log(1 + d) - 1 / log(2 + d)| n

    G is (2^label - 1) divided by the best DCG, with natural logarithms. d is the distance of the
    ranks, and n is the number of rows of the list. With the scores (0, 1) and the labels (1, 0), it
    is log 2 (1 / log 2 - 1 / log 3) 2 = 0.7381, so that `pairwise_logistic` costs 0.7381 * 1.3133 =
    0.9694. Rows with equal scores are ranked in the worst order, as in the metric NDCG.

    Returns:
      float32 [lists, longest, longest], without a meaning for pairs without two rows.
    """
    gains = tf.pow(2.0, _or_zero(lists, lists.labels)) - 1
    gains *= math.log(2) / _best_dcg(gains)
    own, other = lists.scores[:, :, tf.newaxis], lists.scores[:, tf.newaxis, :]
    own_label, other_label = lists.labels[:, :, tf.newaxis], lists.labels[:, tf.newaxis, :]
    place = tf.range(tf.shape(lists.scores)[1])
    earlier = place[tf.newaxis, tf.newaxis, :] < place[tf.newaxis, :, tf.newaxis]
    first = (other_label < own_label) | (tf.equal(other_label, own_label) & earlier)
    ahead = (other > own) | (tf.equal(other, own) & first)
    ahead &= lists.present[:, tf.newaxis, :]
    ranks = tf.reduce_sum(tf.cast(ahead, tf.float32), axis=2)
    distances = tf.abs(ranks[:, :, tf.newaxis] - ranks[:, tf.newaxis, :])
    distances = tf.maximum(distances, 1.0)  # From a row to itself, which does not count.
    discounts = 1 / tf.math.log1p(distances) - 1 / tf.math.log(2 + distances)
    rows = tf.reduce_sum(tf.cast(lists.present, tf.float32), axis=1)
    changes = tf.abs(gains[:, :, tf.newaxis] - gains[:, tf.newaxis, :]) * discounts
    return changes * rows[:, tf.newaxis, tf.newaxis]


# --- Lists: float32 [lists] ----------------------------------------------------------------------


def softmax(lists: Lists) -> tf.Tensor:
    """-sum_i y_i w_i log softmax(s)_i / sum_i y_i w_i, with the weights w of the rows.

    The top-one softmax of ListNet (Cao et al., "Learning to Rank: From Pairwise Approach to
    Listwise Approach", 2007) as a cross-entropy with the labels. The scores (0, 1, 1) and the
    labels (1, 1, 0) cost (log(1 + 2e) + log(1 + 2e) - 1) / 2 = 1.3621.
    """
    shares = _or_zero(lists, lists.labels) * lists.weights
    shares /= tf.reduce_sum(shares, axis=1, keepdims=True)
    return -tf.reduce_sum(shares * tf.nn.log_softmax(_masked_scores(lists)), axis=1)


def unique_softmax(lists: Lists) -> tf.Tensor:
    """sum_i (2^y_i - 1) (log(e^s_i + sum of e^s_j over the rows with y_j < y_i) - s_i).

    Zhu & Klabjan, "Listwise Learning to Rank by Exploring Unique Ratings", 2020. The scores
    (0, 1, 0) and the labels (2, 1, 0) cost 3 log(2 + e) + log(e + 1) - 1 = 4.9676.
    """
    below = lists.labels[:, tf.newaxis, :] < lists.labels[:, :, tf.newaxis]
    places = tf.shape(lists.scores)[1]
    counts = below | tf.eye(places, dtype=tf.bool)[tf.newaxis]
    scores = _masked_scores(lists)
    others = tf.where(counts, scores[:, tf.newaxis, :], _NO_SCORE)
    costs = tf.reduce_logsumexp(others, axis=2) - scores
    gains = tf.pow(2.0, _or_zero(lists, lists.labels)) - 1
    return tf.reduce_sum(gains * _or_zero(lists, costs), axis=1)


def list_mle(lists: Lists) -> tf.Tensor:
    """The negative log-probability of the order of the labels, if scores are drawn one by one.

    ListMLE (Xia et al., "Listwise Approach to Learning to Rank", 2008). With rows sorted by falling
    label, it is the sum over i of log(sum of e^s_j over j >= i) - s_i. The paper's order has no
    equal labels. For m rows with the same label, the sum T of their e^s, and the sum L of e^s over
    the rows with lower labels, this function uses Efron's approximation ("The Efficiency of Cox's
    Likelihood Function for Censored Data", 1977),

        log(T + L) + log(T (m - 1) / m + L) + ... + log(T / m + L)

    minus the scores. It is never below the mean over all orders of these rows, and equal to it if
    their scores are equal. The scores (0, 0, 0) and the labels (1, 0, 0) cost log 3 + log 2 + log 1
    = 1.7918.
    """
    order = tf.argsort(lists.labels, direction="DESCENDING", stable=True)
    labels = -tf.gather(lists.labels, order, batch_dims=1)
    scores = tf.gather(_masked_scores(lists), order, batch_dims=1)
    first = tf.searchsorted(labels, labels, side="left")
    after = tf.searchsorted(labels, labels, side="right")
    ended = tf.pad(scores, [[0, 0], [0, 1]], constant_values=_NO_SCORE)
    left = tf.math.cumulative_logsumexp(ended, axis=1, reverse=True)
    both = tf.gather(left, first, batch_dims=1)
    lower = tf.gather(left, after, batch_dims=1)
    # The share of T that is gone: 0 for the first row of the m, (m - 1) / m for the last one.
    gone = tf.cast(tf.range(tf.shape(scores)[1])[tf.newaxis] - first, tf.float32)
    gone /= tf.cast(after - first, tf.float32)
    costs = both + tf.math.log1p(gone * tf.math.expm1(lower - both)) - scores
    present = tf.gather(lists.present, order, batch_dims=1)
    return tf.reduce_sum(tf.where(present, costs, tf.zeros_like(costs)), axis=1)


def approx_ndcg(lists: Lists, temperature: float) -> tf.Tensor:
    """-NDCG with smooth ranks: 1 + the sum of sigmoid((s_j - s_i) / temperature) over j != i.

    ApproxNDCG (Qin et al., "A General Approximation Framework for Direct Optimization of
    Information Retrieval Measures", 2010; Bruch et al., 2019). DCG is the sum of (2^y - 1) / log2(1
    + rank). Equal scores in a list with the labels (1, 0) have the rank 1.5 and cost -1 /
    log2(2.5) = -0.7565. Gains are computed relative to the largest one, so that large labels do not
    overflow.
    """
    leads = lists.scores[:, tf.newaxis, :] - lists.scores[:, :, tf.newaxis]
    ahead = tf.sigmoid(leads / temperature)
    ahead = tf.where(lists.present[:, tf.newaxis, :], ahead, tf.zeros_like(ahead))
    ranks = 0.5 + tf.reduce_sum(ahead, axis=2)  # A row is ahead of itself by 0.5.
    largest = tf.reduce_max(lists.labels, axis=1, keepdims=True)
    gains = _or_zero(lists, tf.pow(2.0, lists.labels - largest) - tf.pow(2.0, -largest))
    dcg = tf.reduce_sum(gains / _log2(1 + ranks), axis=1)
    return -dcg / _best_dcg(gains)[:, 0]


def _best_dcg(gains: tf.Tensor) -> tf.Tensor:
    """The largest sum of gain / log2(1 + rank): float32 [lists, 1]."""
    ordered = tf.sort(gains, axis=1, direction="DESCENDING")
    ranks = tf.range(1, tf.shape(gains)[1] + 1)
    return tf.reduce_sum(ordered / _log2(tf.cast(1 + ranks, tf.float32)), axis=1, keepdims=True)


def _masked_scores(lists: Lists) -> tf.Tensor:
    """The scores minus the best one, which does not change a softmax: float32 [lists, longest]."""
    present = tf.where(lists.present, lists.scores, tf.float32.min)
    highest = tf.stop_gradient(tf.reduce_max(present, axis=1, keepdims=True))
    return tf.where(lists.present, lists.scores - highest, _NO_SCORE)


def _or_zero(lists: Lists, values: tf.Tensor) -> tf.Tensor:
    return tf.where(lists.present, values, tf.zeros_like(values))


def _log2(values: tf.Tensor) -> tf.Tensor:
    return tf.math.log(values) / math.log(2.0)


_PAIRS = {
    "pairwise_logistic": lambda leads: tf.nn.softplus(-leads),
    "pairwise_hinge": lambda leads: tf.nn.relu(1 - leads),
    "pairwise_soft_zero_one": lambda leads: tf.sigmoid(-leads),
}
_LISTS: dict[str, Any] = {
    "softmax": softmax,
    "unique_softmax": unique_softmax,
    "list_mle": list_mle,
    "approx_ndcg": approx_ndcg,
}
closed(HEADS["ranking"].losses(), {**_PAIRS, **_LISTS})
