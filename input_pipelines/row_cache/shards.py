"""One cached shard: written from the records of a file, and read again as packed rows.

It is a TFRecord file. Of each block of rows it has a record for each matrix of the layout, the
bytes of its numbers (little endian), and one for each list, a serialized string tensor. The
checksums of TFRecord guard them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tensorflow as tf

from input_pipelines.row_cache.layout import RowLayout, list_bytes
from input_pipelines.selection import Selection
from input_pipelines.sharding import Shard
from input_pipelines.tfrecords import OPEN_FILES, Damaged
from input_pipelines.transforms import Transform


def write(
    path: str,
    source: str,
    *,
    transform: Transform,
    selection: Selection,
    layout: RowLayout,
    shard: Shard,
    damaged: Damaged,
) -> Iterator[int]:
    """Writes the rows of the file `source` to `path`, and gives the rows of each block in turn.

    Args:
      path: the file to write.
      source: a TFRecord file.
      transform: made eagerly; so is `selection`.
      selection: what is kept of the rows.
      layout: how they are packed.
      shard: which records of the file are read.
      damaged: as `tfrecords.blocks` takes it.
    """
    blocks = selection.blocks([source], shard, damaged=damaged).map(
        lambda block: layout.pack(*transform.features_and_labels(block)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    matrices = len(layout.packed)
    with tf.io.TFRecordWriter(path) as writer:
        for block in blocks.prefetch(2):
            for matrix in block[:matrices]:
                writer.write(matrix.numpy().tobytes())
            for values in block[matrices:]:
                writer.write(tf.io.serialize_tensor(list_bytes(values)).numpy())
            yield int(tf.shape(block[0])[0])


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
