"""Shuffles rows at the price of blocks.

An epoch reads blocks of several files in turn, shuffles the blocks, joins them into windows and
permutes the rows of each window. A row so moves across a window and a window's blocks come from
anywhere in the shuffle buffer: at least as far as with a row-wise buffer of the window's size, at
a fraction of its cost. The order is a function of (seed, epoch) alone, so that an interrupted
training can go on exactly where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import tensorflow as tf

from input_pipelines.transform import checks

# Rows that are permuted together.
WINDOW = 16 * 1024

# Rows of every epoch, or of one epoch after the other.
RowsAnEpoch = Union[int, Sequence[int]]

# Blocks (of 1024 rows) that the block shuffle holds at a time.
BLOCK_BUFFER = 64


def shuffled_epoch(blocks: tf.data.Dataset, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """The rows of one epoch in a random order, as tensors of up to `WINDOW` rows.

    Args:
      blocks: rows, every one once: a tensor [rows, ...], or a tuple of such.
      seed: of the whole training.
      epoch: int64 scalar; each epoch has an order of its own.
    """
    windows = blocks.shuffle(BLOCK_BUFFER, seed=mixed(seed, epoch)).rebatch(WINDOW)

    def permute(index: tf.Tensor, rows: Any) -> Any:
        order = tf.random.experimental.stateless_shuffle(
            tf.range(_count(rows)), seed=[mixed(seed, epoch), index]
        )
        return tf.nest.map_structure(lambda part: tf.gather(part, order), rows)

    return windows.enumerate().map(permute, num_parallel_calls=2, deterministic=True)


def mixed(seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """A seed for one epoch of one training; any odd multiplier keeps neighbours apart."""
    return tf.constant(seed, tf.int64) + tf.cast(epoch, tf.int64) * 0x9E3779B1


def epochs(
    one_epoch: Callable[[tf.Tensor], tf.data.Dataset],
    *,
    rows_an_epoch: RowsAnEpoch | None,
    skip_rows: int,
    count: int | None,
    empty: str = "an epoch holds no record",
) -> tf.data.Dataset:
    """One epoch after the other, beginning `skip_rows` rows into the first.

    Args:
      one_epoch: makes the dataset of an epoch (rows, as `shuffled_epoch`) from its int64 number.
      rows_an_epoch: needed when rows are to be skipped; of each epoch, where they differ.
      skip_rows: rows that an earlier, interrupted run has trained on.
      count: number of epochs, or None for no end.
      empty: what the error says.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: without end, an epoch holds no row: there would never be one.
    """
    first, offset = epoch_of(skip_rows, rows_an_epoch)
    if count is None:
        one_epoch = never_empty(one_epoch, empty)
    numbers = tf.data.Dataset.range(first, count if count is not None else tf.int64.max)
    if not offset:
        return numbers.flat_map(one_epoch)
    rest = tf.data.Dataset.range(first + 1, count if count is not None else tf.int64.max)
    resumed = without_first_rows(one_epoch(tf.constant(first, tf.int64)), offset)
    return resumed.concatenate(rest.flat_map(one_epoch))


def rows_of_epochs(rows_an_epoch: RowsAnEpoch, count: int) -> int:
    """Rows of the first `count` epochs."""
    if isinstance(rows_an_epoch, int):
        return rows_an_epoch * count
    return sum(rows_an_epoch[:count])


def epoch_of(skip_rows: int, rows_an_epoch: RowsAnEpoch | None) -> tuple[int, int]:
    """The epoch that follows so many rows, and how many rows of it were among them.

    Args:
      skip_rows: how many.
      rows_an_epoch: rows of each epoch; a sequence reaches beyond `skip_rows`.
    """
    if not skip_rows:
        return 0, 0
    if isinstance(rows_an_epoch, int):
        return divmod(skip_rows, rows_an_epoch)
    for epoch, rows in enumerate(rows_an_epoch or ()):
        if skip_rows < rows:
            return epoch, skip_rows
        skip_rows -= rows
    if not skip_rows:
        return len(rows_an_epoch or ()), 0
    raise ValueError(f"rows_an_epoch ends {skip_rows} rows before what is to be skipped")


def never_empty(
    one_epoch: Callable[[tf.Tensor], tf.data.Dataset], empty: str
) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """The epochs with an error in the place of one that holds no row.

    Elements are rows, or tuples of which rows are the first; those without a row are left out.
    """
    message = f"{checks.PREFIX}{empty}"

    def has_rows(*element: tf.Tensor) -> tf.Tensor:
        return tf.size(element[0]) > 0

    def check(seen: tf.Tensor, element: Any) -> tuple[tf.Tensor, Any]:
        seen = seen | has_rows(*tf.nest.flatten(element))
        with tf.control_dependencies([tf.debugging.Assert(seen, [message])]):
            return seen, tf.nest.map_structure(tf.identity, element)

    def checked(number: tf.Tensor) -> tf.data.Dataset:
        windows = one_epoch(number).filter(has_rows)
        # What comes last is empty, and must not be first.
        nothing = tf.nest.map_structure(
            lambda of: tf.zeros([0, *of.shape[1:]], of.dtype), windows.element_spec
        )
        end = tf.data.Dataset.from_tensors(nothing)
        return windows.concatenate(end).scan(tf.constant(False), check).filter(has_rows)

    return checked


def first_rows(windows: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """String tensors of the first `count` rows of some."""

    def cut(left: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = rows[:left]
        return left - tf.size(rows, tf.int64), rows

    kept = windows.scan(tf.constant(count, tf.int64), cut)
    return kept.take_while(lambda rows: tf.size(rows) > 0)


def without_first_rows(windows: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """All rows but the first `count`, as `shuffled_epoch` gives them."""

    def drop(left: tf.Tensor, rows: Any) -> tuple[tf.Tensor, Any]:
        dropped = tf.minimum(left, _count(rows))
        return left - dropped, tf.nest.map_structure(lambda part: part[dropped:], rows)

    kept = windows.scan(tf.constant(count, tf.int64), drop)
    return kept.filter(lambda *rows: _count(rows) > 0)


def _count(rows: Any) -> tf.Tensor:
    """How many rows a tensor, or each tensor of a tuple, has: int64."""
    return tf.shape(tf.nest.flatten(rows)[0], tf.int64)[0]
