"""Shuffles rows at the price of blocks.

An epoch reads blocks of several files in turn, shuffles the blocks, joins them into windows and
permutes the rows of each window. A row so moves across a window and a window's blocks come from
anywhere in the shuffle buffer: at least as far as with a row-wise buffer of the window's size, at
a fraction of its cost. The order is a function of (seed, epoch) alone, so that an interrupted
training can go on exactly where it was.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

# Rows that are permuted together.
WINDOW = 16 * 1024

# Blocks (of 1024 rows) that the block shuffle holds at a time.
BLOCK_BUFFER = 64


def shuffled_epoch(blocks: tf.data.Dataset, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """The rows of one epoch in a random order, as string tensors of up to `WINDOW` rows.

    Args:
      blocks: string tensors [rows], every row once.
      seed: of the whole training.
      epoch: int64 scalar; each epoch has an order of its own.
    """
    windows = blocks.shuffle(BLOCK_BUFFER, seed=mixed(seed, epoch)).rebatch(WINDOW)

    def permute(index: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.random.experimental.stateless_shuffle(rows, seed=[mixed(seed, epoch), index])

    return windows.enumerate().map(permute, num_parallel_calls=2, deterministic=True)


def mixed(seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """A seed for one epoch of one training; any odd multiplier keeps neighbours apart."""
    return tf.constant(seed, tf.int64) + tf.cast(epoch, tf.int64) * 0x9E3779B1


def epochs(
    one_epoch: Callable[[tf.Tensor], tf.data.Dataset],
    *,
    rows_an_epoch: int | None,
    skip_rows: int,
    count: int | None,
) -> tf.data.Dataset:
    """One epoch after the other, beginning `skip_rows` rows into the first.

    Args:
      one_epoch: makes the dataset of an epoch (string tensors) from its int64 number.
      rows_an_epoch: needed when rows are to be skipped or epochs counted over a restart.
      skip_rows: rows that an earlier, interrupted run has trained on.
      count: number of epochs, or None for no end.
    """
    first, offset = divmod(skip_rows, rows_an_epoch) if rows_an_epoch else (0, 0)
    numbers = tf.data.Dataset.range(first, count if count is not None else tf.int64.max)
    if not offset:
        return numbers.flat_map(one_epoch)
    rest = tf.data.Dataset.range(first + 1, count if count is not None else tf.int64.max)
    resumed = _without_first_rows(one_epoch(tf.constant(first, tf.int64)), offset)
    return resumed.concatenate(rest.flat_map(one_epoch))


def _without_first_rows(windows: tf.data.Dataset, count: int) -> tf.data.Dataset:
    def drop(left: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        dropped = tf.minimum(left, tf.size(rows, tf.int64))
        return left - dropped, rows[dropped:]

    kept = windows.scan(tf.constant(count, tf.int64), drop)
    return kept.filter(lambda rows: tf.size(rows) > 0)
