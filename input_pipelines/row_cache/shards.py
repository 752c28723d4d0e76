"""Packs transformed rows into a few tensors, writes them as a cached shard, and reads them again.

In tf.data, each tensor of each element has a cost. With forty columns this cost is larger than the
cost of their bytes in shuffling and batching. So all numbers of one type become one matrix, with
ids as int32 if a column's size allows it. Each list becomes one string in each row: the bytes of
its values. Unpacking returns exactly the packed values, to the last bit.

    layout = RowLayout.of(spec, Transform(spec))
    features, labels = layout.unpack(*layout.pack(features, labels))    # In a graph or eagerly.

A cached shard is a TFRecord file. For each block of rows it has one record for each matrix of the
layout (the bytes of its numbers, little endian) and one record for each list (a serialized string
tensor). The checksums of TFRecord protect them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.eager import as_written
from input_pipelines.errors import cores
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.record_files.sharding import Shard
from input_pipelines.record_files.tfrecords import Damaged
from input_pipelines.transform.transforms import Transform, raw_feature


@dataclasses.dataclass(frozen=True, eq=False)
class _Field:
    """One tensor of the rows.

    Attributes:
      name: its name in messages.
      spec: its element spec; the first dimension is rows.
      stored: the type in which its numbers are stored.
    """

    name: str
    spec: Any
    stored: tf.DType

    @property
    def is_list(self) -> bool:
        return isinstance(self.spec, tf.RaggedTensorSpec)

    @property
    def width(self) -> int:
        """How many numbers a row has. Only for fields that are not lists."""
        return int(np.prod(self.spec.shape[1:], dtype=np.int64))


class RowLayout:
    """How the rows of one spec are packed.

    Args:
      spec: the feature spec, for the sizes of its columns.
      element: the element spec of `Transform.features_and_labels`.

    Raises:
      ValueError: the shape of a row depends on other rows in its batch, as with padded steps; or a
        column is a list of lists or a string.
    """

    def __init__(self, spec: FeatureSpec, element: Any):
        self._element = element
        features, labels = element
        # In the order of `tf.nest.flatten`.
        self._fields = [
            *(_field(name, features[name], _ids(spec, name)) for name in sorted(features)),
            *(_field(name, labels[name], None) for name in sorted(labels)),
        ]
        # The fields of each matrix, by (stored type, type after unpacking).
        self._matrices: dict[tuple[tf.DType, tf.DType], list[_Field]] = {}
        for field in self._fields:
            if not field.is_list:
                self._matrices.setdefault((field.stored, field.spec.dtype), []).append(field)
        self._lists = [f for f in self._fields if f.is_list]

    @classmethod
    def of(cls, spec: FeatureSpec, transform: Transform) -> RowLayout:
        """The layout of a spec with this transform. Call it where TensorFlow executes eagerly."""
        nothing = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))
        return cls(spec, nothing.map(as_written(transform.features_and_labels)).element_spec)

    @property
    def packed(self) -> list[tuple[tf.DType, int]]:
        """The type and the width of each matrix. `lists` string tensors follow the matrices."""
        return [
            (stored, sum(field.width for field in fields))
            for (stored, _), fields in self._matrices.items()
        ]

    @property
    def lists(self) -> int:
        """How many columns are lists."""
        return len(self._lists)

    def pack(self, features: Any, labels: Any) -> tuple[Any, ...]:
        """A matrix for each of `packed`, and the lists unchanged; then use `list_bytes` on them."""
        parts = dict(zip(self._fields, tf.nest.flatten((features, labels))))
        matrices = []
        for (stored, _), fields in self._matrices.items():
            columns = [tf.reshape(parts[field], [-1, field.width]) for field in fields]
            matrices.append(tf.cast(tf.concat(columns, axis=1), stored))
        return (*matrices, *(parts[field] for field in self._lists))

    def unpack(self, *packed: tf.Tensor) -> Any:
        """Turns matrices and strings back into the `(features, labels)` of the transform."""
        parts: dict[_Field, Any] = {}
        for ((_, dtype), fields), matrix in zip(self._matrices.items(), packed):
            widths = [field.width for field in fields]
            for field, part in zip(fields, tf.split(tf.cast(matrix, dtype), widths, axis=1)):
                parts[field] = tf.reshape(part, [-1, *field.spec.shape[1:]])
        for field, rows in zip(self._lists, packed[len(self._matrices) :]):
            parts[field] = _list(rows, field.stored)
        return tf.nest.pack_sequence_as(self._element, [parts[field] for field in self._fields])


def list_bytes(values: Any) -> np.ndarray:
    """The bytes of each row of a ragged tensor, object [rows], for `RowLayout.unpack`."""
    flat = values.flat_values.numpy()
    data = flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()
    ends = (values.row_splits.numpy() * flat.itemsize).tolist()
    return np.array([data[a:b] for a, b in zip(ends, ends[1:])], object)


def _list(rows: tf.Tensor, dtype: tf.DType) -> tf.RaggedTensor:
    values = tf.io.decode_raw(tf.strings.reduce_join(rows), dtype)
    lengths = tf.cast(tf.strings.length(rows), tf.int64) // dtype.size
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)


def _ids(spec: FeatureSpec, name: str) -> Optional[int]:
    """How many ids a column has; None for numbers, weights and keys."""
    column = spec.columns.get(name)
    if column is None or not column.categorical or spec.columns[spec.ids_of(name)].keyed:
        return None
    return spec.size_of(name)


def _shown(name: str) -> str:
    feature = raw_feature(name)
    return repr(name) if feature is None else f"feature {feature!r}, in `raw`,"


def _field(name: str, element: Any, ids: Optional[int]) -> _Field:
    if isinstance(element, tf.RaggedTensorSpec):
        if element.ragged_rank != 1 or element.shape.rank != 2:
            raise ValueError(f"{_shown(name)} is a list of lists, which the cache cannot store")
        return _Field(name, element, element.dtype)
    if None in element.shape[1:].as_list():
        raise ValueError(f"{_shown(name)} is as wide as the longest row of its batch")
    if element.dtype == tf.string:
        raise ValueError(f"{_shown(name)} is a string, which the cache cannot store")
    small = element.dtype == tf.int64 and ids is not None and ids <= tf.int32.max
    return _Field(name, element, tf.int32 if small else element.dtype)


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
