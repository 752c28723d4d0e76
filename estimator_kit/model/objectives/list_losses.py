"""The losses of lists of rows, computed by TensorFlow Ranking.

The rows of a group in a batch form a list (`make_lists`). `list_losses` returns a loss and a weight
for each list. For a list with the scores (0, 1) and the labels (1, 0), the losses are:

    pairwise_logistic        log(1 + e^1)                                        1.3133
    pairwise_hinge           max(0, 1 + 1)                                       2
    pairwise_soft_zero_one   1 - sigmoid(-1)                                     0.7311
    softmax                  -log(e^0 / (e^0 + e^1))                             1.3133
    unique_softmax           the same times 2^1 - 1                              1.3133
    list_mle                 -log(e^0 / (e^0 + e^1)) - log(e^1 / e^1)            1.3133
    approx_ndcg              -1 / log2(1 + rank), rank = 1 + sigmoid(1 / 0.1)   -0.6309

Sources: RankNet (Burges et al., 2005), the hinge (Joachims, 2002), the top-one softmax of ListNet
(Cao et al., 2007), unique softmax (Zhu & Klabjan, 2020), ListMLE (Xia et al., 2008), ApproxNDCG
(Qin et al., 2010; Bruch et al., 2019). list_mle puts rows with equal labels in a random order.

With `lambda_weight: ndcg`, the weight of a pair is the change of NDCG if the two rows swapped
places (LambdaLoss; Wang et al., 2018): |G_i - G_j| |1 / log(1 + d) - 1 / log(2 + d)| n. G is
(2^label - 1) divided by the best DCG, with natural logarithms. d is the distance of the ranks, and
n is the number of rows of the list. In the example, it is log 2 (1 / log 2 - 1 / log 3) 2 = 0.7381,
so that pairwise_logistic costs 0.9694.

In TensorFlow Ranking, the padding in list_mle and the number n depend on the longest list of the
batch. This module corrects both, so that the loss of a list does not depend on the other lists of
its batch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.heads.losses import Loss, name_of, options_of
from input_pipelines.reading.row_groups import row_changes

# The label that TensorFlow Ranking expects for a place without a row.
_NO_ROW = -1.0

# The score of places without a row, relative to the best score. e^-80 is a float32 and adds
# nothing.
_NO_SCORE = -80.0

_CLASSES = {
    "pairwise_logistic": "PairwiseLogisticLoss",
    "pairwise_hinge": "PairwiseHingeLoss",
    "pairwise_soft_zero_one": "PairwiseSoftZeroOneLoss",
    "softmax": "SoftmaxLoss",
    "unique_softmax": "UniqueSoftmaxLoss",
    "list_mle": "ListMLELoss",
    "approx_ndcg": "ApproxNDCGLoss",
}


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


def library() -> Any:
    """The module `tensorflow_ranking`.

    Raises:
      ConfigError: the package is not installed.
    """
    try:
        import tensorflow_ranking
    except ImportError as error:
        raise ConfigError(
            f"the head ranking needs the package 'tensorflow-ranking' ({error}). Install it with: "
            "pip install estimator-kit[ranking]. With TensorFlow 2.16 and later, which the package "
            "works with but does not declare, use: "
            "pip install --no-deps tensorflow-ranking==0.5.5"
        ) from error
    return tensorflow_ranking


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


def list_losses(loss: Loss, lists: Lists) -> tuple[tf.Tensor, tf.Tensor]:
    """The loss of each list of a batch, float32 [lists - 1], and its weight, in the same shape.

    A pairwise loss is the mean over the pairs of rows with different labels, weighted by the weight
    of the better row. The weight of the list is the mean of these weights. For the other losses,
    the weight of a list is the mean of the weights of its rows, weighted by their labels. softmax
    multiplies the labels by the weights. Lists whose rows have weight 1 therefore count equally,
    independent of their length.
    """
    ranking = library().losses_impl
    name, options = name_of(loss), options_of(loss)
    make = getattr(ranking, _CLASSES[name])
    # Only differences of scores matter. The library pads lists with its own score.
    scores = lists.scores - tf.stop_gradient(_highest(lists))
    if name.startswith("pairwise"):
        lambdas = None
        if options.lambda_weight is not None:
            lambdas = library().losses.create_ndcg_lambda_weight()
        computed = make(name, lambda_weight=lambdas)
        losses, weight = _of_pairs(computed, lists, scores, lambdas=lambdas is not None)
        return losses[:-1], weight[:-1]
    weight = tf.reduce_sum(lists.weights * _or_zero(lists, lists.labels), axis=1)
    weight /= tf.reduce_sum(_or_zero(lists, lists.labels), axis=1)
    mask = lists.present
    if name == "list_mle":
        # Not below -80, because below -88 the library takes the logarithm of 0.
        scores = tf.maximum(tf.where(mask, scores, _NO_SCORE), _NO_SCORE)
        mask = tf.ones_like(mask)
    computed = make(name)
    if name == "approx_ndcg":
        computed = make(name, temperature=options.temperature)
        scores = computed.get_logits(scores)  # The library does not do this for single lists.
    losses, _ = computed.compute_per_list(lists.labels, scores, lists.weights, mask)
    if name == "list_mle":
        # m places without a row add log m + log(m - 1) + ... + log 1.
        empty = tf.reduce_sum(tf.cast(~lists.present, tf.float32), axis=1)
        losses -= tf.math.lgamma(empty + 1)
    return losses[:-1], weight[:-1]


def _of_pairs(
    computed: Any, lists: Lists, scores: tf.Tensor, *, lambdas: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    mean, weight = computed.compute_per_list(lists.labels, scores, lists.weights, lists.present)
    better = lists.labels[:, :, tf.newaxis] > lists.labels[:, tf.newaxis, :]
    both = lists.present[:, :, tf.newaxis] & lists.present[:, tf.newaxis, :]
    # For each row, the number of rows that are worse.
    wins = tf.reduce_sum(tf.cast(better & both, tf.float32), axis=2)
    pairs, weighted = tf.reduce_sum(wins, axis=1), tf.reduce_sum(wins * lists.weights, axis=1)
    total = mean * weight
    if lambdas:
        rows = tf.reduce_sum(tf.cast(lists.present, tf.float32), axis=1)
        total *= rows / tf.cast(tf.shape(scores)[1], tf.float32)
    return total / weighted, weighted / pairs


def _highest(lists: Lists) -> tf.Tensor:
    """The best score of each list: float32 [lists, 1]."""
    lowest = tf.constant(-math.inf, tf.float32)
    return tf.reduce_max(tf.where(lists.present, lists.scores, lowest), axis=1, keepdims=True)


def _or_zero(lists: Lists, values: tf.Tensor) -> tf.Tensor:
    return tf.where(lists.present, values, tf.zeros_like(values))
