"""Writes a cached shard from the records of a file, and reads it again as packed rows.

A cached shard is a TFRecord file. For each block of rows it has one record for each matrix of the
layout (the bytes of its numbers, little endian) and one record for each list (a serialized string
tensor). The checksums of TFRecord protect them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from input_pipelines.autograph import as_written
from input_pipelines.cores import cores
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.record_files.sharding import Shard
from input_pipelines.record_files.tfrecords import Damaged
from input_pipelines.row_cache.layout import RowLayout, list_bytes

# How many blocks are transformed together, so that fewer operations run.
_TOGETHER = 8


def packed_by_file(
    files: Sequence[str],
    *,
    selection: Selection,
    shard: Shard,
    damaged: Damaged,
    pack: Callable[[tf.Tensor], tuple[Any, ...]],
    layout: RowLayout,
) -> Iterator[tuple[str, Iterator[list[np.ndarray]]]]:
    """Yields each file that has blocks, with its blocks of selected and packed rows.

    Uses one dataset for all files, because setting up a dataset takes as long as reading 10,000
    records. Read all blocks of a file before you ask for the next file.

    Args:
      files: TFRecord files.
      selection: which of their records are kept.
      shard, damaged: see `tfrecords.blocks`.
      pack: a function from serialized records to `layout.pack` of their rows.
      layout: how rows are packed.
    """
    blocks = tfrecords.numbered_blocks(files, shard, damaged=damaged).map(
        as_written(lambda records, path, places: (path, selection.passing(records)))
    )
    together = blocks.ragged_batch(_TOGETHER)
    packed = together.map(
        as_written(lambda paths, some: (paths, some.row_lengths(), pack(some.flat_values))),
        num_parallel_calls=cores(),
        deterministic=True,
    ).prefetch(1)
    for path, of_file in itertools.groupby(_blocks(packed, layout), lambda block: block[0]):
        yield path.decode(), (block for _, block in of_file)


def _blocks(packed: tf.data.Dataset, layout: RowLayout) -> Iterator[tuple[bytes, list[np.ndarray]]]:
    """Splits blocks that were packed together into single ones, each with the path of its file."""
    matrices = len(layout.packed)
    for paths, lengths, rows in packed:
        parts = [
            *(matrix.numpy() for matrix in rows[:matrices]),
            *(list_bytes(values) for values in rows[matrices:]),
        ]
        ends = np.cumsum(lengths)
        for path, begin, end in zip(paths.numpy(), ends - lengths, ends):
            yield path, [part[begin:end] for part in parts]


def write(path: str, blocks: Iterable[list[np.ndarray]], *, layout: RowLayout) -> Iterator[int]:
    """Writes the rows of one file to `path`. Yields the number of rows so far after each block.

    Args:
      path: the file to write.
      blocks: the file's blocks from `packed_by_file`.
      layout: how rows are packed.
    """
    matrices = len(layout.packed)
    total = 0
    with tf.io.TFRecordWriter(path) as writer:
        for block in blocks:
            for matrix in block[:matrices]:
                writer.write(matrix.tobytes())
            for values in block[matrices:]:
                writer.write(tf.io.serialize_tensor(values).numpy())
            total += len(block[0])
            yield total


def read(paths: Sequence[str], layout: RowLayout, *, interleaved: bool) -> tf.data.Dataset:
    """The packed blocks of some cached shards, in the order of `tfrecords.blocks`."""
    packed = layout.packed

    def block(records: tf.Tensor) -> tuple[tf.Tensor, ...]:
        matrices = [
            tf.reshape(tf.io.decode_raw(records[i], dtype), [-1, width])
            for i, (dtype, width) in enumerate(packed)
        ]
        lists = [
            tf.ensure_shape(tf.io.parse_tensor(records[len(packed) + i], tf.string), [None])
            for i in range(layout.lists)
        ]
        return (*matrices, *lists)

    def blocks(path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path)
        return records.batch(len(packed) + layout.lists, drop_remainder=True).map(block)

    files = tf.data.Dataset.from_tensor_slices(list(paths))
    return tfrecords.of_files(files, len(paths), blocks, interleaved=interleaved)


def is_whole(path: str) -> bool:
    """Whether a cached shard can be read to its end."""
    try:
        for _ in tf.data.TFRecordDataset(path).batch(64):
            pass
    except tf.errors.OpError:
        return False
    return True
