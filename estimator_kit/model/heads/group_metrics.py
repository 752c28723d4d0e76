"""Metrics of groups of rows: GAUC, MRR, NDCG and hit rate at k.

A group is the rows with one value of the feature `group_by`, such as a user or a query. The rows
may be anywhere in the data, so they are stored until the end. `row_sample` limits the memory: the
metrics are exact for up to CAPACITY rows, and otherwise exact for a sample of complete groups.

Rows without a group (a missing value) and rows with weight 0 are ignored. Only GAUC uses other
weights. Rows with equal scores are ranked in the worst order, lower labels first. In GAUC, ties
count half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from estimator_kit.model.heads.row_sample import row_sample
from estimator_kit.model.heads.streaming import Metric, ratio
from feature_specs.heads.metrics import MetricChoice
from input_pipelines.reading.row_groups import row_changes

CAPACITY = 2**20


class _Rows(NamedTuple):
    """The rows sorted by group, and within a group by score, the best first.

    Attributes:
      groups: the number of groups.
      segment: int64 [rows], the number of the row's group, starting at 0.
      rank: int64 [rows], the rank within the group, starting at 1.
      score, label, weight: float64 [rows].
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
    """The chosen metrics, the number of groups `groups`, and `group_rows_share`.

    `group_rows_share` is the share of the rows that the metrics use. If it is below 1, there were
    more than `capacity` rows, and the metrics use a sample of the groups.

    Args:
      chosen: metrics of `HeadEntry.by_group`.
      group: int64 [rows], hashes. Negative numbers mean no group.
      scores, labels, weights: float32 [rows]. A label above 0 is relevant.
      grades: whether labels are grades of relevance. NDCG then uses 2^label - 1.
      capacity: the number of rows to store.
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
        elif choice.name == "hit_rate":
            k = int(choice.value or 1)
            values[choice.label] = _of_first(rows, lambda rank, k=k: tf.cast(rank <= k, tf.float64))
        else:
            raise KeyError(choice.name)
    return {name: (value, update) for name, value in values.items()}


def _gauc(rows: _Rows) -> tf.Tensor:
    """The weighted mean of the AUCs of the groups (GAUC).

    Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018, where the
    weights are impressions. Groups with rows of only one class have no AUC and are left out. The
    metric is NaN if all groups are left out. Two groups with the weights 3 and 1 and the AUCs 1 and
    0.5 have the GAUC (3 + 0.5) / 4 = 0.875.
    """
    positive, negative = rows.weight * rows.label, rows.weight * (1 - rows.label)
    # A block is the rows of one group with equal scores.
    changed = row_changes(rows.segment) | row_changes(rows.score)
    block = tf.cumsum(tf.cast(changed, tf.int64)) - 1
    blocks = tf.reduce_sum(tf.cast(changed, tf.int64))
    negatives = tf.math.unsorted_segment_sum(negative, block, blocks)
    # For each row, the negatives of its group with a lower rank.
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
    """The mean of DCG / best DCG of the first k ranks, over the groups with a relevant row.

    DCG is the sum of gain / log2(1 + rank). The gain is the label (Järvelin & Kekäläinen, 2002).
    One relevant row at rank 2 has (1 / log2 3) / 1 = 0.6309. For grades, the gain is 2^label - 1
    (Burges et al., 2005), which is the same for labels 0 and 1. It is computed relative to the
    largest grade of the group, so that large grades do not overflow.
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
    """The mean of a function of the rank of the first relevant row, over groups that have one.

    1 / rank gives the mean reciprocal rank (Voorhees, 1999): for the ranks 1 and 4 it is 0.625.
    rank <= k gives the hit rate at k.
    """
    assert callable(value)
    rank = tf.cast(rows.rank, tf.float64)
    nothing = tf.constant(tf.float64.max, tf.float64)  # The result of the op for an empty segment.
    first = tf.math.unsorted_segment_min(
        tf.where(rows.label > 0, rank, nothing), rows.segment, rows.groups
    )
    has = first < nothing
    values = tf.where(has, value(tf.where(has, first, tf.ones_like(first))), tf.zeros_like(first))
    return ratio(tf.reduce_sum(values), tf.reduce_sum(tf.cast(has, tf.float64)))


def _ranked(keys: tf.Tensor, columns: tf.Tensor) -> _Rows:
    """Sorts rows by key, then by falling score, and ties by rising label."""
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
