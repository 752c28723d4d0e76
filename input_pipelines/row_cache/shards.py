"""One cached shard: written from the records of a file, and read again as packed rows.

It is a TFRecord file. Of each block of rows it has a record for each matrix of the layout, the
bytes of its numbers (little endian), and one for each list, a serialized string tensor. The
checksums of TFRecord guard them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from input_pipelines import tfrecords
from input_pipelines.autograph import as_written
from input_pipelines.row_cache.layout import RowLayout, list_bytes
from input_pipelines.selection import Selection
from input_pipelines.sharding import Shard
from input_pipelines.tfrecords import OPEN_FILES, Damaged

# Blocks that are transformed together: the price of an operation is paid less often.
_TOGETHER = 8


def blocks_by_file(
    files: Sequence[str], selection: Selection, shard: Shard, damaged: Damaged
) -> Iterator[tuple[str, Iterator[tf.Tensor]]]:
    """Each file that has any block, with its blocks of serialized records, what is kept of them.

    One dataset for all files: making one ready takes as long as reading 10,000 records. The blocks
    of a file have to be read before the next file is asked for.
    """
    blocks = tfrecords.numbered_blocks(files, shard, damaged=damaged).map(
        as_written(lambda records, path, places: (path, selection.passing(records)))
    )
    for path, some in itertools.groupby(blocks.prefetch(_TOGETHER), lambda block: block[0].numpy()):
        yield path.decode(), (records for _, records in some)


def write(
    path: str,
    blocks: Iterable[tf.Tensor],
    *,
    packed: Callable[[tf.Tensor], tuple[Any, ...]],
    layout: RowLayout,
) -> Iterator[int]:
    """Writes the rows of one file to `path`, and gives how many so far, some blocks at a time.

    Args:
      path: the file to write.
      blocks: of the file's serialized records.
      packed: from serialized records to `layout.pack` of their rows.
      layout: how they are packed.
    """
    matrices = len(layout.packed)
    total = 0
    with tf.io.TFRecordWriter(path) as writer:
        for some in _several(blocks):
            rows = packed(tf.concat(some, axis=0))
            numbers = [matrix.numpy() for matrix in rows[:matrices]]
            lists = [list_bytes(values) for values in rows[matrices:]]
            begin = 0
            for block in some:
                part = slice(begin, begin + len(block))
                begin = part.stop
                for matrix in numbers:
                    writer.write(matrix[part].tobytes())
                for values in lists:
                    writer.write(tf.io.serialize_tensor(values[part]).numpy())
            total += begin
            yield total


def _several(blocks: Iterable[tf.Tensor]) -> Iterator[list[tf.Tensor]]:
    """Blocks, some at a time."""
    iterator = iter(blocks)
    while some := list(itertools.islice(iterator, _TOGETHER)):
        yield some


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
    if not interleaved:
        return files.flat_map(blocks)
    return files.interleave(
        blocks,
        cycle_length=min(OPEN_FILES, len(paths)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def is_whole(path: str) -> bool:
    """Whether a cached shard can be read to its end."""
    try:
        for _ in tf.data.TFRecordDataset(path).batch(64):
            pass
    except tf.errors.OpError:
        return False
    return True
