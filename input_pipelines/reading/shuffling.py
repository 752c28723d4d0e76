"""Shuffles rows, but works on whole blocks, which costs much less.

An epoch reads blocks from several files in turn, shuffles the blocks, joins them into windows and
permutes the rows of each window. So a row can move anywhere in its window, and the blocks of a
window come from anywhere in the shuffle buffer. Rows move at least as far as with a row-wise
shuffle buffer of the window's size, at a fraction of its cost. The order depends only on (seed,
epoch), so an interrupted training run can continue exactly where it stopped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from input_pipelines.transform import checks

# The number of rows that are permuted together.
WINDOW = 16 * 1024

# The number of rows of every epoch, or a list with the number for each epoch.
RowsAnEpoch = Union[int, Sequence[int]]

# Makes the dataset of an epoch from its number, an int64 scalar.
OneEpoch = Callable[[tf.Tensor], tf.data.Dataset]


@dataclasses.dataclass(frozen=True)
class Span:
    """Which rows of its shard a training reads.

    Attributes:
      skip: rows that an interrupted run has already read.
      epochs: how often each row is read, counted from the first row; None repeats without end. An
        epoch of a mix has as many rows as all its parts together (see `mixing`).
      rows: how many rows of this shard an epoch has: one entry, or one for each part of a mix. An
        entry is a number for every epoch, or one number for each epoch up to the one in which
        `skip` ends; see `RowCounts`. Required with `skip`, and for `epochs` of a mix.
    """

    skip: int = 0
    epochs: Optional[int] = None
    rows: Sequence[RowsAnEpoch] = ()

    def __post_init__(self) -> None:
        if self.skip and not self.rows:
            raise ValueError("skip needs the rows of an epoch, to know in which epoch it ends")

    def start(self) -> tuple[int, int]:
        """The epoch in which it starts, and how many rows of this epoch were read before."""
        return epoch_of(self.skip, self.rows[0]) if self.skip else (0, 0)

    def numbers(self, first: int) -> tf.data.Dataset:
        """The numbers of the epochs from the first one on, int64."""
        return tf.data.Dataset.range(first, tf.int64.max if self.epochs is None else self.epochs)


# Blocks (of 1024 rows) that the block shuffle holds at a time.
BLOCK_BUFFER = 64


def shuffled_epoch(blocks: tf.data.Dataset, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """The rows of one epoch in a random order, as tensors of up to `WINDOW` rows.

    Args:
      blocks: all rows, each of them once: a tensor [rows, ...], or a tuple of such tensors.
      seed: the seed of the whole training run.
      epoch: int64 scalar. Each epoch has a different order.
    """
    return permuted(shuffled_blocks(blocks, seed, epoch), seed, epoch)


def shuffled_blocks(blocks: tf.data.Dataset, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """The blocks of one epoch in a random order, which depends only on their number."""
    return blocks.shuffle(BLOCK_BUFFER, seed=mixed(seed, epoch))


def permuted(
    blocks: tf.data.Dataset, seed: int, epoch: tf.Tensor, first: int = 0
) -> tf.data.Dataset:
    """The rows of blocks, as tensors of up to `WINDOW` rows in a random order.

    Args:
      blocks, seed, epoch: see `shuffled_epoch`.
      first: the number of the window in the epoch with which the blocks begin.
    """

    def permute(index: tf.Tensor, rows: Any) -> Any:
        order = tf.random.experimental.stateless_shuffle(
            tf.range(_count(rows)), seed=[mixed(seed, epoch), index]
        )
        return tf.nest.map_structure(lambda part: tf.gather(part, order), rows)

    windows = blocks.rebatch(WINDOW).enumerate(first)
    return windows.map(permute, num_parallel_calls=2, deterministic=True)


def mixed(seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """A seed for one epoch of a training run. The odd multiplier keeps seeds of epochs apart."""
    return tf.constant(seed, tf.int64) + tf.cast(epoch, tf.int64) * 0x9E3779B1


def epochs(
    one_epoch: OneEpoch,
    span: Span,
    empty: str = "an epoch holds no record",
    rest_of: Optional[Callable[[int, int], Optional[tf.data.Dataset]]] = None,
) -> tf.data.Dataset:
    """One epoch after the other, without the rows that were read before.

    Args:
      one_epoch: makes the dataset of an epoch (rows, like `shuffled_epoch`) from its int64 number.
      span: which rows are read.
      empty: the text of the error for an epoch without rows.
      rest_of: makes the dataset of an epoch without its first rows from the epoch's number and
        their number, or None if it has to read them.

    Raises (in the graph):
      tf.errors.InvalidArgumentError: epochs repeat without end, and an epoch has no row. Without
        this error, the dataset would search for a first row forever.
    """
    first, offset = span.start()
    if span.epochs is None:
        one_epoch = never_empty(one_epoch, empty)
    if not offset:
        return span.numbers(first).flat_map(one_epoch)
    resumed = rest_of(first, offset) if rest_of is not None else None
    if resumed is None:
        resumed = without_first_rows(one_epoch(tf.constant(first, tf.int64)), offset)
    return resumed.concatenate(span.numbers(first + 1).flat_map(one_epoch))


def rows_of_epochs(rows_an_epoch: RowsAnEpoch, count: int) -> int:
    """The number of rows of the first `count` epochs."""
    if isinstance(rows_an_epoch, int):
        return rows_an_epoch * count
    return sum(rows_an_epoch[:count])


def epoch_of(skip_rows: int, rows_an_epoch: RowsAnEpoch | None) -> tuple[int, int]:
    """The epoch to continue in after `skip_rows` rows, and how many rows to skip in this epoch.

    Args:
      skip_rows: the rows that were read before.
      rows_an_epoch: the rows of every epoch, or a sequence with the rows of each epoch. The sum of
        the sequence must be at least `skip_rows`.
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
    raise ValueError(f"rows_an_epoch has {skip_rows} rows fewer than skip_rows")


def never_empty(one_epoch: OneEpoch, empty: str) -> OneEpoch:
    """The same epochs, but an epoch without rows raises an error.

    Elements are rows, or tuples whose first part is rows. Elements without a row are dropped.
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
        # An empty element marks the end. If it is the first one, the epoch has no rows.
        nothing = tf.nest.map_structure(
            lambda of: tf.zeros([0, *of.shape[1:].as_list()], of.dtype), windows.element_spec
        )
        end = tf.data.Dataset.from_tensors(nothing)
        return windows.concatenate(end).scan(tf.constant(False), check).filter(has_rows)

    return checked


def first_rows(windows: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """String tensors with the first `count` rows."""

    def cut(left: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = rows[:left]
        return left - tf.size(rows, tf.int64), rows

    kept = windows.scan(tf.constant(count, tf.int64), cut)
    return kept.take_while(lambda rows: tf.size(rows) > 0)


def without_first_rows(windows: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """All rows except the first `count`, in the form of `shuffled_epoch`."""

    def drop(left: tf.Tensor, rows: Any) -> tuple[tf.Tensor, Any]:
        dropped = tf.minimum(left, _count(rows))
        return left - dropped, tf.nest.map_structure(lambda part: part[dropped:], rows)

    kept = windows.scan(tf.constant(count, tf.int64), drop)
    return kept.filter(lambda *rows: _count(rows) > 0)


def _count(rows: Any) -> tf.Tensor:
    """How many rows a tensor, or each tensor of a tuple, has: int64."""
    return tf.shape(tf.nest.flatten(rows)[0], tf.int64)[0]
