"""Packs transformed rows into a few tensors, and stores blocks of them in a file.

In tf.data, each tensor of each element has a cost. With forty columns this cost is larger than the
cost of their bytes in shuffling and batching. So all numbers of one type become one matrix, with
ids as int32 if a column's size allows it. Each list becomes one string in each row: the bytes of
its values. Unpacking returns exactly the packed values, to the last bit.

    layout = RowLayout.of(spec, Transform(spec))
    matrices, lists = layout.pack(features, labels)         # In a graph or eagerly.
    features, labels = layout.unpack(*matrices, *(bytes of lists))

A cached shard is a TFRecord file. For each block of rows it has one record for each matrix of the
layout (the bytes of its numbers, little endian) and one record for each list (a serialized string
tensor): `to_records` and `from_records`. The checksums of TFRecord protect them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.eager import as_written
from input_pipelines.record_files import record_scanner
from input_pipelines.transform.transforms import Transform, raw_feature


def is_plain(spec: FeatureSpec) -> bool:
    """Whether a `RowLayout` can surely store all rows of a spec. Else, only making it tells."""
    is_nested = any(feature.nested for feature in spec.features.values())
    return not (spec.raw or spec.sequence_examples or is_nested)


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
    def is_scalar(self) -> bool:
        """Whether a row has one number, as [rows]. Only for fields that are not lists."""
        return bool(self.spec.shape.rank == 1)

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
        # The fields of each matrix, by (stored type, type after unpacking, whether a row has one
        # number without a separate dimension).
        self._matrices: dict[tuple[tf.DType, tf.DType, bool], list[_Field]] = {}
        for field in self._fields:
            if not field.is_list:
                key = field.stored, field.spec.dtype, field.is_scalar
                self._matrices.setdefault(key, []).append(field)
        self._lists = [f for f in self._fields if f.is_list]

    @classmethod
    def of_rows(cls, spec: FeatureSpec, features: Any, labels: Any) -> RowLayout:
        """The layout of the result of `Transform.features_and_labels`."""
        rows = [tf.nest.map_structure(_any_number, part) for part in (features, labels)]
        return cls(spec, tuple(rows))

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
            for (stored, *_), fields in self._matrices.items()
        ]

    @property
    def lists(self) -> int:
        """How many columns are lists."""
        return len(self._lists)

    @property
    def records(self) -> int:
        """How many records a stored block has."""
        return len(self._matrices) + len(self._lists)

    def pack(self, features: Any, labels: Any) -> tuple[list[tf.Tensor], list[tf.RaggedTensor]]:
        """A matrix for each of `packed`, and the lists unchanged; then use `list_bytes` on them."""
        parts = dict(zip(self._fields, tf.nest.flatten((features, labels))))
        matrices = []
        for (stored, _, are_scalars), fields in self._matrices.items():
            columns = [parts[field] for field in fields]
            if are_scalars:
                matrix = tf.stack(columns, axis=1)
            else:
                matrix = tf.concat([_flat(column) for column in columns], axis=1)
            matrices.append(tf.cast(matrix, stored))
        return matrices, [parts[field] for field in self._lists]

    def unpack(self, *packed: tf.Tensor) -> Any:
        """Turns matrices and strings back into the `(features, labels)` of the transform."""
        parts: dict[_Field, Any] = {}
        for ((_, dtype, are_scalars), fields), matrix in zip(self._matrices.items(), packed):
            matrix = tf.cast(matrix, dtype)
            if are_scalars:
                parts.update(zip(fields, tf.unstack(matrix, len(fields), axis=1)))
                continue
            for field, part in zip(fields, tf.split(matrix, [f.width for f in fields], axis=1)):
                has_one = field.spec.shape.rank == 2
                parts[field] = part if has_one else tf.reshape(part, [-1, *field.spec.shape[1:]])
        for field, rows in zip(self._lists, packed[len(self._matrices) :]):
            parts[field] = _list(rows, field.stored)
        return tf.nest.pack_sequence_as(self._element, [parts[field] for field in self._fields])

    def to_records(self, packed: Sequence[np.ndarray]) -> list[bytes]:
        """The records of a block of packed rows."""
        matrices, lists = packed[: len(self._matrices)], packed[len(self._matrices) :]
        return [
            *(np.ascontiguousarray(matrix).tobytes() for matrix in matrices),
            *(tf.io.serialize_tensor(rows).numpy() for rows in lists),
        ]

    def from_records(self, records: tf.Tensor) -> list[tf.Tensor]:
        """The packed rows of the records of a block, string [`self.records`]."""
        packed = self.packed
        matrices = [
            tf.reshape(tf.io.decode_raw(records[i], dtype), [-1, width])
            for i, (dtype, width) in enumerate(packed)
        ]
        lists = [
            tf.ensure_shape(tf.io.parse_tensor(records[len(packed) + i], tf.string), [None])
            for i in range(self.lists)
        ]
        return [*matrices, *lists]


def _any_number(values: Any) -> Any:
    """The spec of a batch of values, with any number of rows."""
    if isinstance(values, tf.RaggedTensor):
        shape, rank = [None, *values.shape[1:]], values.ragged_rank
        return tf.RaggedTensorSpec(shape, values.dtype, rank, values.row_splits.dtype)
    return tf.TensorSpec([None, *values.shape[1:]], values.dtype)


def _flat(column: tf.Tensor) -> tf.Tensor:
    """A column [rows, ...] as [rows, numbers]."""
    if column.shape.rank == 2:
        return column
    return tf.reshape(column, [-1, int(np.prod(column.shape[1:], dtype=np.int64))])


def list_bytes(flat: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """The bytes of each row of a list, object [rows], for `RowLayout.unpack`.

    Args:
      flat: the values of all rows.
      splits: the place in `flat` where each row begins, and its end.
    """
    data = flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()
    ends = (splits * flat.itemsize).tolist()
    rows = np.empty(len(ends) - 1, object)
    rows[:] = [data[a:b] for a, b in zip(ends, ends[1:])]
    return rows


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


def is_whole(path: str) -> bool:
    """Whether a cached shard can be read to its end."""
    try:
        return record_scanner.first_bad(path) is None
    except (OSError, tf.errors.OpError):
        return False
