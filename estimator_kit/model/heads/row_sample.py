"""Stores rows of complete groups over batches, in limited memory.

The key of a group is a hash. As long as there is room, all rows are stored. When the store is full,
the groups with the largest keys are removed for good. At the end, the store has the groups with the
smallest keys. This is a uniform sample of complete groups. It depends only on the rows, and not on
their order or batches (bottom-k sampling by a hash; Cohen & Kaplan, "Summarizing Data Using
Bottom-k Sketches", 2007).

The store has room for twice the capacity, so that the sort that removes groups is rare: once per
`capacity` rows.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.model.heads.streaming import ratio, streaming_sum

_LARGEST = 2**62


def row_sample(
    keys: tf.Tensor, columns: tf.Tensor, present: tf.Tensor, *, capacity: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The rows of all batches so far, or of a sample of their groups.

    Args:
      keys: int64 [rows], uniform hashes below 2^62. A negative key is a row without a group.
      columns: float32 [rows, n], the values to store.
      present: bool [rows], whether the row counts.
      capacity: the number of rows to keep. A larger group is never kept.

    Returns:
      (keys, columns, share, update): int64 [kept] and float32 [kept, n], in no order; the share of
      all present rows with a group that are kept; and the op that adds this batch.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if replicas > 1:
        raise ValueError(
            f"metrics of groups need one device, got {replicas} replicas. Evaluate without a "
            "distribution strategy."
        )
    width = int(columns.shape[1])
    stored_keys = _variable("keys", [2 * capacity], tf.int64)
    stored = _variable("rows", [2 * capacity, width], tf.float32)
    count = _variable("count", [], tf.int64)
    limit = _variable("limit", [], tf.int64, _LARGEST)

    has_group = present & (keys >= 0)
    seen, seen_update = streaming_sum(tf.math.count_nonzero(has_group), "seen")
    mask = has_group & (keys < limit)
    keys, columns = tf.boolean_mask(keys, mask), tf.boolean_mask(columns, mask)
    old_count = count.read_value()
    new_count = old_count + tf.size(keys, tf.int64)

    def append() -> tf.Operation:
        writes = [
            stored_keys[old_count:new_count].assign(keys),
            stored[old_count:new_count].assign(columns),
            count.assign(new_count),
        ]
        return tf.group(*writes)

    def give_up() -> tf.Operation:
        all_keys = tf.concat([stored_keys[:old_count], keys], axis=0)
        all_rows = tf.concat([stored[:old_count], columns], axis=0)
        kept_keys, kept, new_limit = _smallest(all_keys, all_rows, limit, capacity)
        size = tf.size(kept_keys, tf.int64)
        with tf.control_dependencies([kept_keys, kept, new_limit]):
            writes = [
                stored_keys[:size].assign(kept_keys),
                stored[:size].assign(kept),
                count.assign(size),
                limit.assign(new_limit),
            ]
        return tf.group(*writes)

    with tf.control_dependencies([keys, columns]):
        update = tf.cond(new_count <= 2 * capacity, append, give_up)
    now = count.read_value()
    kept_keys, kept, _ = _smallest(stored_keys[:now], stored[:now], limit, capacity)
    share = ratio(tf.cast(tf.size(kept_keys), tf.float64), seen)
    return kept_keys, kept, share, tf.group(update, seen_update)


def _smallest(
    keys: tf.Tensor, columns: tf.Tensor, limit: tf.Tensor, capacity: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The rows of the groups with the smallest keys, and the smallest key that does not fit."""

    def cut() -> tf.Tensor:
        return tf.sort(keys)[
            capacity
        ]  # The key of the first row that does not fit. Its group is removed.

    new_limit = tf.cond(
        tf.size(keys) > capacity, cut, lambda: tf.convert_to_tensor(limit, tf.int64)
    )
    mask = keys < new_limit
    return tf.boolean_mask(keys, mask), tf.boolean_mask(columns, mask), new_limit


def _variable(name: str, shape: list[int], dtype: tf.DType, value: int = 0) -> Any:
    return tf.compat.v1.Variable(
        lambda: tf.fill(shape, tf.constant(value, dtype)),
        trainable=False,
        collections=[
            tf.compat.v1.GraphKeys.LOCAL_VARIABLES,
            tf.compat.v1.GraphKeys.METRIC_VARIABLES,
        ],
        use_resource=True,
        name=f"group_{name}",
    )
