"""The losses of lists of rows, computed by TensorFlow Ranking.

The rows of a group in a batch are a list (`make_lists`). `list_losses` gives each list a loss and a
weight. Of the list with the scores (0, 1) and the labels (1, 0), whose better row is below by 1:

    pairwise_logistic        log(1 + e^1)                                        1.3133
    pairwise_hinge           max(0, 1 + 1)                                       2
    pairwise_soft_zero_one   1 - sigmoid(-1)                                     0.7311
    softmax                  -log(e^0 / (e^0 + e^1))                             1.3133
    unique_softmax           the same times 2^1 - 1                              1.3133
    list_mle                 -log(e^0 / (e^0 + e^1)) - log(e^1 / e^1)            1.3133
    approx_ndcg              -1 / log2(1 + rank), rank = 1 + sigmoid(1 / 0.1)   -0.6309

Sources: RankNet (Burges et al., 2005), the hinge (Joachims, 2002), ListNet's top-one softmax (Cao
et al., 2007), unique softmax (Zhu & Klabjan, 2020), ListMLE (Xia et al., 2008), ApproxNDCG (Qin et
al., 2010; Bruch et al., 2019). Equal labels are put in a random order by list_mle.

With `lambda_weight: ndcg` a pair counts by what its exchange does to NDCG (LambdaLoss; Wang et al.,
2018): |G_i - G_j| |1 / log(1 + d) - 1 / log(2 + d)| n, where G is (2^label - 1) over the best DCG
with natural logarithms, d the distance of the ranks and n the rows of the list. Above that is
log 2 (1 / log 2 - 1 / log 3) 2 = 0.7381, so that pairwise_logistic costs 0.9694.

What TensorFlow Ranking leaves to the length of the longest list of a batch (padding in list_mle,
n above) is taken out here: a list costs the same whatever lists are beside it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.heads.losses import Loss, name_of, options_of
from input_pipelines.reading.row_groups import row_changes

# What TensorFlow Ranking takes for a place without a row.
_NO_ROW = -1.0

# Below the best score of a list, for places without a row: e^-80 is a float32 and adds nothing.
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
    """Lists of rows that say something about an order: with two different labels at least.

    The last one is no list of the batch, but of the scores (0, 0), labels (1, 0) and weights (1,
    1): several ops have no gradient, or an error, for no list at all.

    Attributes:
      scores, labels, weights: float32 [lists, longest]; a place without a row has the label -1.
      present: bool [lists, longest].
      rows: float32 scalar, how many rows of the batch are in these lists.
    """

    scores: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor
    present: tf.Tensor
    rows: tf.Tensor


def library() -> Any:
    """The module `tensorflow_ranking`.

    Raises:
      ConfigError: it is not installed.
    """
    try:
        import tensorflow_ranking
    except ImportError as error:
        raise ConfigError(
            "the head ranking needs the package 'tensorflow-ranking' (it says: "
            f"{error}); install it with: pip install estimator-kit[ranking], or, beside TensorFlow "
            "2.16 and later, which it does not ask for and works with: "
            "pip install --no-deps tensorflow-ranking==0.5.5"
        ) from error
    return tensorflow_ranking


def make_lists(group: tf.Tensor, scores: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Lists:
    """The rows of a batch as lists, wherever in the batch the rows of a group are.

    Where two epochs meet in a batch, a list may have each of its rows twice (see `row_groups`).

    Rows without a group or of weight 0 are left out, and then lists whose labels are all equal; a
    row that is alone in its group is one of these.

    Args:
      group: int64 [rows], hashes; below 0 for no group.
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
    """The loss of each list of a batch, float32 [lists - 1], and its weight, of the same shape.

    A loss of pairs is the mean over the pairs of rows with different labels, each by the weight of
    its better row; the list weighs as much as the mean of these. Of the other losses a list weighs
    as much as its rows do in the mean by their labels, and softmax takes the labels times the
    weights for its truth. So lists of weight 1 count the same, however long they are.
    """
    ranking = library().losses_impl
    name, options = name_of(loss), options_of(loss)
    make = getattr(ranking, _CLASSES[name])
    # Only differences of scores matter; padding is a score of its own to the library.
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
        # At -80 at least: beyond -88 the library takes the logarithm of 0.
        scores = tf.maximum(tf.where(mask, scores, _NO_SCORE), _NO_SCORE)
        mask = tf.ones_like(mask)
    computed = make(name)
    if name == "approx_ndcg":
        computed = make(name, temperature=options.temperature)
        scores = computed.get_logits(scores)  # Which it does not do by itself for single lists.
    losses, _ = computed.compute_per_list(lists.labels, scores, lists.weights, mask)
    if name == "list_mle":
        # Of m places without a row: log m + log(m - 1) + ... + log 1.
        empty = tf.reduce_sum(tf.cast(~lists.present, tf.float32), axis=1)
        losses -= tf.math.lgamma(empty + 1)
    return losses[:-1], weight[:-1]


def _of_pairs(
    computed: Any, lists: Lists, scores: tf.Tensor, *, lambdas: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    mean, weight = computed.compute_per_list(lists.labels, scores, lists.weights, lists.present)
    better = lists.labels[:, :, tf.newaxis] > lists.labels[:, tf.newaxis, :]
    both = lists.present[:, :, tf.newaxis] & lists.present[:, tf.newaxis, :]
    # Of each row: the rows that it is better than.
    wins = tf.reduce_sum(tf.cast(better & both, tf.float32), axis=2)
    pairs, weighted = tf.reduce_sum(wins, axis=1), tf.reduce_sum(wins * lists.weights, axis=1)
    total = mean * weight
    if lambdas:
        rows = tf.reduce_sum(tf.cast(lists.present, tf.float32), axis=1)
        total *= rows / tf.cast(tf.shape(scores)[1], tf.float32)
    return total / weighted, weighted / pairs


def _highest(lists: Lists) -> tf.Tensor:
    """float32 [lists, 1]: the best score of each list."""
    lowest = tf.constant(-math.inf, tf.float32)
    return tf.reduce_max(tf.where(lists.present, lists.scores, lowest), axis=1, keepdims=True)


def _or_zero(lists: Lists, values: tf.Tensor) -> tf.Tensor:
    return tf.where(lists.present, values, tf.zeros_like(values))
