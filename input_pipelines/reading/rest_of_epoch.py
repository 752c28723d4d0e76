"""The rest of an epoch after a restart, without reading the rows before it.

The order of an epoch depends on how many blocks each file has, not on what is in them. So it is
first made of the places of blocks, which takes about a microsecond for each block. Only the blocks
from the row on where the restart begins are then read, each from its place in its file.

    rest(files, seed=1, epoch=3, offset=1_000_000, shuffle=True, read=read)

This gives the same windows as `shuffling.without_first_rows` of the whole epoch. It needs files in
which the places of blocks are known: local, not compressed, and not damaged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from input_pipelines.eager import as_written
from input_pipelines.reading import shuffling
from input_pipelines.record_files import tfrecords

# Blocks that are read at the same time.
_AHEAD = 4


@dataclasses.dataclass(frozen=True)
class Blocks:
    """The blocks of one file, in their order.

    Attributes:
      path: the file to read; its records are not compressed.
      offsets: int64 [blocks], the byte at which each block begins.
      rows: int64 [blocks], the number of rows of each block.
    """

    path: str
    offsets: np.ndarray
    rows: np.ndarray


@as_written
def rest(
    files: Sequence[Blocks],
    *,
    seed: int,
    epoch: int,
    offset: int,
    shuffle: bool,
    read: Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.data.Dataset],
) -> tf.data.Dataset:
    """The rows of an epoch from a row on, as tensors of rows.

    Args:
      files: all files of the epoch, in the order in which an epoch opens them.
      seed, epoch: decide the order.
      offset: how many rows of the epoch were read before.
      shuffle: whether the epoch is shuffled; else blocks follow each other.
      read: a function from the number of a file, its path, an offset and the number of rows to
        leave out to one element: the other rows of the block.
    """
    number = tf.constant(epoch, tf.int64)
    first = offset // shuffling.WINDOW if shuffle else 0
    begin = first * shuffling.WINDOW if shuffle else offset
    starts = np.cumsum([0, *(len(file.rows) for file in files)])
    paths = tf.constant([file.path for file in files])
    offsets = tf.constant(np.concatenate([file.offsets for file in files]), tf.int64)
    rows = tf.constant(np.concatenate([file.rows for file in files]), tf.int64)

    def places(index: tf.Tensor, begin: tf.Tensor, end: tf.Tensor) -> tf.data.Dataset:
        return tf.data.Dataset.range(begin, end).map(lambda block: (index, block))

    named = tf.data.Dataset.from_tensor_slices((np.arange(len(files)), starts[:-1], starts[1:]))
    order = tfrecords.of_files(named, len(files), places, interleaved=shuffle)
    if shuffle:
        order = shuffling.shuffled_blocks(order, seed, number)

    def count(before: tf.Tensor, place: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, Any]:
        end = before + rows[place[1]]
        return end, (*place, tf.maximum(begin - before, 0), end)

    counted = order.scan(tf.constant(0, tf.int64), count)
    needed = counted.filter(lambda file, block, skip, end: end > begin)
    blocks = needed.interleave(
        lambda file, block, skip, end: read(file, paths[file], offsets[block], skip),
        cycle_length=_AHEAD,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    if not shuffle:
        return blocks
    windows = shuffling.permuted(blocks, seed, number, first)
    return shuffling.without_first_rows(windows, offset - begin)
