"""Metrics within groups of rows: GAUC, MRR, NDCG and hit rate at k.

A group is the rows of one value of the feature `group_by` (a user, a query), wherever they are in
the data, so its rows have to be kept until the end. Memory is bounded by `row_sample`: exact up to
CAPACITY rows, and beyond them exact of a sample of whole groups.

Rows without a group (a missing value) and rows of weight 0 are left out. Other weights count in
GAUC alone. Rows of one score are ranked as unluckily as can be, lower labels first, except in GAUC,
where ties count half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from estimator_kit.model.objectives.row_sample import row_sample
from estimator_kit.model.objectives.streaming import Metric, ratio
from feature_specs.heads.metric_choices import MetricChoice
from input_pipelines.reading.row_groups import row_changes

CAPACITY = 2**20


class _Rows(NamedTuple):
    """Rows by group, the best score first; all [rows] but `groups`, their number.

    Attributes:
      segment: int64, the number of the row's group, from 0.
      rank: int64, from 1 within the group.
      score, label, weight: float64.
    """

    groups: tf.Tensor
    segment: tf.Tensor
    rank: tf.Tensor
    score: tf.Tensor
    label: tf.Tensor
    weight: tf.Tensor


def group_metrics(
    chosen: Sequence[MetricChoice],
    group: tf.Tensor,
    scores: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    *,
    grades: bool = False,
    capacity: int = CAPACITY,
) -> dict[str, Metric]:
    """The chosen metrics, `groups`, their number, and `group_rows_share`.

    `group_rows_share` is the share of the rows that are in these groups: below 1 there were more
    than `capacity` rows, and the metrics are those of a sample of the groups.

    Args:
      chosen: metrics of `metric_choices.BY_GROUP`.
      group: int64 [rows], hashes; below 0 for no group.
      scores, labels, weights: float32 [rows]; a label above 0 is relevant.
      grades: whether labels are grades of relevance, of which NDCG takes 2^label - 1.
      capacity: rows that are kept.
    """
    keys, columns, share, update = row_sample(
        group, tf.stack([scores, labels, weights], axis=1), weights > 0, capacity=capacity
    )
    rows = _ranked(keys, tf.cast(columns, tf.float64))
    values = {"groups": tf.cast(rows.groups, tf.float64), "group_rows_share": share}
    for choice in chosen:
        if choice.name == "gauc":
            values[choice.label] = _gauc(rows)
        elif choice.name == "ndcg":
            values[choice.label] = _ndcg(rows, int(choice.value or 1), grades)
        elif choice.name == "mrr":
            values[choice.label] = _of_first(rows, lambda rank: 1 / rank)
        else:
            k = int(choice.value or 1)
            values[choice.label] = _of_first(rows, lambda rank, k=k: tf.cast(rank <= k, tf.float64))
    return {name: (value, update) for name, value in values.items()}


def _gauc(rows: _Rows) -> tf.Tensor:
    """The mean of the AUCs of the groups by their weights (GAUC; Zhou et al., 2018).

    Groups whose rows are all of one class have no AUC and are left out; NaN when all are. ("Deep
    Interest Network for Click-Through Rate Prediction", where the weights are impressions.)
    Groups of 3 and of 1 weight with the AUCs 1 and 0.5: (3 + 0.5) / 4 = 0.875.
    """
    positive, negative = rows.weight * rows.label, rows.weight * (1 - rows.label)
    # Blocks of rows of one group and score: ties.
    changed = row_changes(rows.segment) | row_changes(rows.score)
    block = tf.cumsum(tf.cast(changed, tf.int64)) - 1
    blocks = tf.reduce_sum(tf.cast(changed, tf.int64))
    negatives = tf.math.unsorted_segment_sum(negative, block, blocks)
    # Of each row: the negatives of its group that it is ranked above.
    above = tf.cumsum(negatives)
    group_negatives = tf.math.unsorted_segment_sum(negative, rows.segment, rows.groups)
    up_to_group = tf.cumsum(group_negatives)
    below = tf.gather(up_to_group, rows.segment) - tf.gather(above, block)
    below += tf.gather(negatives, block) / 2
    pairs = tf.math.unsorted_segment_sum(positive * below, rows.segment, rows.groups)
    group_positives = tf.math.unsorted_segment_sum(positive, rows.segment, rows.groups)
    both = group_positives * group_negatives
    weight = tf.math.unsorted_segment_sum(rows.weight, rows.segment, rows.groups)
    weight *= tf.cast(both > 0, tf.float64)
    return ratio(tf.reduce_sum(tf.math.divide_no_nan(pairs, both) * weight), tf.reduce_sum(weight))


def _ndcg(rows: _Rows, k: int, grades: bool) -> tf.Tensor:
    """The mean over the groups with a relevant row of DCG / the best DCG, of the first k ranks.

    DCG = sum of label / log2(1 + rank) (Järvelin & Kekäläinen, 2002, whose gain is the label). One
    relevant row at rank 2: (1 / log2 3) / 1 = 0.6309. Of grades the gain is 2^label - 1 (Burges et
    al., 2005), which is the same for 0 and 1; it is taken relative to the group's best, so that
    large grades do not overflow.
    """
    gain = rows.label
    if grades:
        best_grade = tf.math.unsorted_segment_max(gain, rows.segment, rows.groups)
        top = tf.gather(best_grade, rows.segment)
        gain = _power_of_2(gain - top) - _power_of_2(-top)
    best = tf.argsort(gain, direction="DESCENDING", stable=True)
    best = tf.gather(best, tf.argsort(tf.gather(rows.segment, best), stable=True))
    gained, possible = (
        tf.math.unsorted_segment_sum(
            tf.where(rows.rank <= k, value / _log2(1 + rows.rank), tf.zeros_like(value)),
            rows.segment,
            rows.groups,
        )
        for value in (gain, tf.gather(gain, best))
    )
    has = tf.cast(possible > 0, tf.float64)
    return ratio(tf.reduce_sum(tf.math.divide_no_nan(gained, possible)), tf.reduce_sum(has))


def _of_first(rows: _Rows, value: object) -> tf.Tensor:
    """The mean, over the groups with a relevant row, of a function of the first one's rank.

    1 / rank makes the mean reciprocal rank (Voorhees, 1999): ranks 1 and 4 are 0.625; rank <= k
    the hit rate at k.
    """
    assert callable(value)
    rank = tf.cast(rows.rank, tf.float64)
    nothing = tf.constant(tf.float64.max, tf.float64)  # What the op gives an empty segment.
    first = tf.math.unsorted_segment_min(
        tf.where(rows.label > 0, rank, nothing), rows.segment, rows.groups
    )
    has = first < nothing
    values = tf.where(has, value(tf.where(has, first, tf.ones_like(first))), tf.zeros_like(first))
    return ratio(tf.reduce_sum(values), tf.reduce_sum(tf.cast(has, tf.float64)))


def _ranked(keys: tf.Tensor, columns: tf.Tensor) -> _Rows:
    """Rows by key, then from the highest score to the lowest, ties by label from the lowest."""
    order = tf.argsort(columns[:, 1], stable=True)
    by_score = tf.argsort(tf.gather(columns[:, 0], order), direction="DESCENDING", stable=True)
    order = tf.gather(order, by_score)
    order = tf.gather(order, tf.argsort(tf.gather(keys, order), stable=True))
    keys, columns = tf.gather(keys, order), tf.gather(columns, order)
    first = row_changes(keys)
    segment = tf.cumsum(tf.cast(first, tf.int64)) - 1
    position = tf.range(tf.size(keys, tf.int64))
    start = tf.boolean_mask(position, first)
    rank = position - tf.gather(start, segment) + 1
    score, label, weight = tf.unstack(columns, num=3, axis=1)
    return _Rows(tf.size(start, tf.int64), segment, rank, score, label, weight)


def _power_of_2(values: tf.Tensor) -> tf.Tensor:
    return tf.pow(tf.constant(2.0, tf.float64), values)


def _log2(values: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.cast(values, tf.float64)) / math.log(2.0)
