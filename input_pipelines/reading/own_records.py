"""Turns rows of raw features, as a user's code gives them, into serialized records.

A row is a dictionary with the values that a record would have, `{"price": 9.5, "tags": ["a"]}`, or
an element of a `tf.data.Dataset` with a tensor for each value. The records are those that
`writing.write_examples` stores. So everything behind them is the same as for files: the filter, the
order of rows, the parse, the transform, and the checks of values.

    of_rows(spec, rows)          # bytes, one record for each dictionary
    of_dataset(spec, dataset)    # a dataset of string [rows]

Names that the spec does not have are left out. This module checks types and shapes, never values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from feature_specs.errors import nearest
from feature_specs.spec import FeatureSpec
from input_pipelines.eager import as_written
from input_pipelines.errors import DataError
from input_pipelines.record_files import writing
from input_pipelines.record_files.tfrecords import BLOCK

_ONE_DICTIONARY = (
    "Give one dictionary for each row, with its features and labels, such as "
    '{"price": 9.5, "click": 1}'
)

# For each dtype: the message of its list, and the field of `tf.train.Feature` with this message.
_LISTS = {
    "string": ("BytesList", "bytes_list"),
    "float32": ("FloatList", "float_list"),
    "int64": ("Int64List", "int64_list"),
}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str, bytes),
    "float32": (float, int, np.floating, np.integer, np.bool_),
    "int64": (int, np.integer, np.bool_),
}


def entries_of(spec: FeatureSpec) -> dict[str, Any]:
    """The features and labels of a spec by name. A name in both is the label."""
    return {**spec.features, **spec.labels}


# Python rows.


def of_rows(spec: FeatureSpec, rows: Iterable[Any]) -> Iterator[bytes]:
    """The record of each row.

    Args:
      spec: the feature spec.
      rows: a mapping for each row, or anything with `keys()` such as a `sqlite3.Row`. The value of
        a feature is a number, a string or a list, as for `writing.example`; None means that the row
        lacks it. An element may also be a `pyarrow.RecordBatch`.

    Raises:
      DataError: a row has another type, or a value has another type than the spec says.
    """
    entries = entries_of(spec)
    for number, row in enumerate(_single(rows)):
        if not hasattr(row, "keys"):
            hint = "" if not isinstance(row, tuple) else (
                ". For a cursor of sqlite3, set connection.row_factory = sqlite3.Row"
            )  # fmt: skip
            raise DataError(
                f"row {number}: expected a dictionary, got {shown(row)}. {_ONE_DICTIONARY}{hint}"
            )
        try:
            yield _record(spec, entries, {name: row[name] for name in row.keys()})  # noqa: SIM118
        except (TypeError, ValueError) as error:
            raise DataError(f"row {number}: {error}") from error


def _single(rows: Iterable[Any]) -> Iterator[Any]:
    for row in rows:
        if hasattr(row, "to_pylist"):
            yield from row.to_pylist()
        else:
            yield row


def _record(spec: FeatureSpec, entries: Mapping[str, Any], row: Mapping[str, Any]) -> bytes:
    context: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    for name, entry in entries.items():
        value = row.get(name)
        if value is None:
            continue
        if name in spec.feature_lists:
            if not isinstance(value, (list, tuple, np.ndarray)):
                raise TypeError(f"{name!r}: expected a list of steps, got {shown(value)}")
            lists[name] = [
                _typed(name, entry.dtype, step) if entry.nested else
                _typed(name, entry.dtype, step)[0] for step in value
            ]  # fmt: skip
        else:
            context[name] = _typed(name, entry.dtype, value)
    if spec.sequence_examples:
        message = writing.sequence_example(context, lists)
    else:
        message = writing.example(context)
    return bytes(message.SerializeToString(deterministic=True))


def _typed(name: str, dtype: str, value: Any) -> list[Any]:
    """The flat list of a value's numbers or strings, checked to have the dtype."""
    values = list(_flattened(value))
    for one in values:
        if not isinstance(one, _PYTHON_TYPES[dtype]):
            raise TypeError(f"{name!r}: expected {dtype}, got {shown(one)}. Convert the value")
    return [float(one) for one in values] if dtype == "float32" else values


def _flattened(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield from value.reshape(-1).tolist()
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _flattened(part)
    else:
        yield value


def shown(value: Any) -> str:
    """A value and its type, for messages."""
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


# Datasets.


@as_written
def of_dataset(spec: FeatureSpec, dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The records of a dataset, as string tensors of up to `BLOCK` records.

    Args:
      spec: the feature spec.
      dataset: its elements are dictionaries of tensors: rows, or batches of rows, which the ranks
        of the tensors tell. Lists may be dense, ragged or sparse. A dense list keeps all values.

    Raises:
      DataError: the elements have another form, or lack a feature that each row must have.
    """
    entries = entries_of(spec)
    tensors = _checked(spec, entries, dataset.element_spec)
    batched = _are_batches(entries, tensors)
    only = dataset.map(lambda row: {name: row[name] for name in tensors})
    rows = only.map(_with_same_rows) if batched else only.ragged_batch(BLOCK)
    records = rows.map(
        lambda batch: _records(spec, entries, batch), tf.data.AUTOTUNE, deterministic=True
    )
    return records.rebatch(BLOCK) if batched else records


def length_of(spec: FeatureSpec, dataset: tf.data.Dataset) -> int:
    """How many rows a dataset has, if it knows that, else another cardinality of tf.data."""
    length = int(dataset.cardinality())
    entries = entries_of(spec)
    if length < 0 or not _are_batches(entries, _checked(spec, entries, dataset.element_spec)):
        return length
    return int(tf.data.UNKNOWN_CARDINALITY)


def _checked(spec: FeatureSpec, entries: Mapping[str, Any], element: Any) -> dict[str, Any]:
    """The element spec of each tensor that the spec has. Raises DataError."""
    if not isinstance(element, Mapping):
        what = f"a tuple of {len(element)}" if isinstance(element, tuple) else repr(element)
        raise DataError(f"the elements of the data set: expected a dictionary, got {what}. "
                        f"{_ONE_DICTIONARY}")  # fmt: skip
    tensor_specs: dict[str, Any] = {}
    for name, entry in entries.items():
        tensor_spec = element.get(name)
        if tensor_spec is None:
            if _is_required(spec, name, entry):
                raise DataError(
                    f"{name!r} is missing from the elements of the data set, and {spec.source} "
                    f"requires it{nearest(name, sorted(map(str, element))) or '.'} Add it, or "
                    "change the spec"
                )
            continue
        if not isinstance(tensor_spec, (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)):
            raise DataError(f"{name!r}: expected a tensor, got {tensor_spec!r}")
        if tensor_spec.dtype.name != entry.dtype:
            raise DataError(
                f"{name!r}: expected a tensor of {entry.dtype}, got {tensor_spec.dtype.name}. Use "
                "tf.cast, or change the spec"
            )
        if tensor_spec.shape.rank is None:
            raise DataError(
                f"{name!r}: expected a tensor of a known rank, got {tensor_spec!r}. Use "
                "tf.ensure_shape, or state the shape in the data set's output_signature"
            )
        tensor_specs[name] = tensor_spec
    if not tensor_specs:
        raise DataError(
            f"the elements of the data set have no feature of {spec.source}, got "
            f"{', '.join(map(repr, element)) or 'an empty dictionary'}"
        )
    return tensor_specs


def _is_required(spec: FeatureSpec, name: str, entry: Any) -> bool:
    if name in spec.labels:
        return bool(entry.missing is None)
    return bool(entry.is_required and name not in spec.ignored)


def _are_batches(entries: Mapping[str, Any], tensors: Mapping[str, Any]) -> bool:
    """Whether elements are batches of rows. Raises DataError for a rank that is neither."""
    wrong = {
        batched: [n for n in tensors if tensors[n].shape.rank - batched not in _ranks(entries[n])]
        for batched in (False, True)
    }
    batched = len(wrong[True]) < len(wrong[False])
    for name in wrong[batched]:
        ranks = " or ".join(str(rank + batched) for rank in _ranks(entries[name]))
        raise DataError(
            f"{name!r}: expected the rank {ranks} in {'a batch of rows' if batched else 'a row'}, "
            f"got the shape {tensors[name].shape}. Each element is a row or a batch of rows"
        )
    return batched


def _ranks(entry: Any) -> list[int]:
    """The ranks that a value may have in one row."""
    if entry.shape == "variable":
        return [2 if getattr(entry, "feature_list", False) else 1]
    if getattr(entry, "feature_list", False):
        return [1]
    ranks = [len(entry.shape)]
    if getattr(entry, "missing", None) is not None and 1 not in ranks:
        ranks.append(1)  # A list with the value, or without one.
    return ranks


def _records(spec: FeatureSpec, entries: Mapping[str, Any], batch: Mapping[str, Any]) -> tf.Tensor:
    """string [rows]: the Examples or SequenceExamples of a batch."""
    batch = {
        name: tf.RaggedTensor.from_sparse(values) if isinstance(values, tf.SparseTensor) else values
        for name, values in batch.items()
    }
    rows = _rows(next(iter(batch.values())))
    context: dict[str, tf.Tensor] = {}
    lists: dict[str, tf.Tensor] = {}
    singles: dict[str, list[str]] = {}
    for name in sorted(batch, key=str.encode):
        values = batch[name]
        if name in spec.feature_lists:
            lists[name] = _feature_list(values, nested=entries[name].nested)
        elif values.shape.rank == 1:
            singles.setdefault(entries[name].dtype, []).append(name)
        else:
            context[name] = _feature(values)
    for names in singles.values():  # Together, because each one of them would take thirty ops.
        together = _feature(tf.concat([batch[name] for name in names], axis=0)[:, tf.newaxis])
        context.update(zip(names, tf.unstack(tf.reshape(together, [len(names), rows]))))
    parts = [_map("Features", "feature", "FeatureEntry", context, rows)]
    if not spec.sequence_examples:
        return _message("Example", ["features"], parts)
    parts.append(_map("FeatureLists", "feature_list", "FeatureListEntry", lists, rows))
    return _message("SequenceExample", ["context", "feature_lists"], parts)


def _rows(values: Any) -> tf.Tensor:
    if isinstance(values, tf.RaggedTensor):
        return tf.cast(values.nrows(), tf.int32)
    return tf.shape(values)[0]


def _with_same_rows(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same batch. Its tensors are checked to have the same number of rows."""
    counts = [
        tf.cast(values.dense_shape[0], tf.int32)
        if isinstance(values, tf.SparseTensor)
        else _rows(values)
        for values in batch.values()
    ]
    good = tf.reduce_all(tf.equal(counts, counts[0]))
    message = f"the tensors of a batch differ in their number of rows: {', '.join(batch)}:"
    with tf.control_dependencies([tf.debugging.Assert(good, [message, counts], summarize=1000)]):
        result: Mapping[str, Any] = tf.nest.map_structure(
            tf.identity, batch, expand_composites=True
        )
        return result


def _feature(values: Any) -> tf.Tensor:
    """string [rows]: the `tf.train.Feature` of each row of numbers or strings [rows, ...]."""
    if isinstance(values, tf.RaggedTensor):
        values = values if values.shape.rank == 2 else values.merge_dims(1, -1)
    elif values.shape.rank > 2:
        shape = tf.shape(values)
        values = tf.reshape(values, [shape[0], tf.reduce_prod(shape[1:])])
    message, field = _LISTS[values.dtype.name]
    return _message("Feature", [field], [_message(message, ["value"], [values])])


def _feature_list(values: Any, *, nested: bool) -> tf.Tensor:
    """string [rows]: the `tf.train.FeatureList` of steps [rows, steps] or [rows, steps, values]."""
    if not isinstance(values, tf.RaggedTensor):
        values = tf.RaggedTensor.from_tensor(values, row_splits_dtype=tf.int64)
    steps = _feature(values.values if nested else values.values[:, tf.newaxis])
    return _message("FeatureList", ["feature"], [values.with_values(steps)])


def _map(
    message: str, field: str, entry: str, values: Mapping[str, tf.Tensor], rows: tf.Tensor
) -> tf.Tensor:
    """string [rows]: a message that maps names to the values of each row."""
    if not values:
        return tf.fill([rows], b"")
    keys = tf.repeat(tf.constant(list(values)), rows)
    entries = _message(
        f"{message}.{entry}", ["key", "value"], [keys, tf.concat([*values.values()], 0)]
    )
    # Numbers are transposed, because TensorFlow complains about strings.
    order = tf.transpose(tf.reshape(tf.range(len(values) * rows), [len(values), rows]))
    return _message(message, [field], [tf.gather(entries, order)])


def _message(message: str, fields: list[str], values: list[Any]) -> tf.Tensor:
    """string [rows]: messages of TensorFlow's protocol buffers.

    The values of each field are strings [rows], or for a repeated field a tensor or a ragged tensor
    [rows, n]. TensorFlow has the classes of `tf.train` in C++, so no Python runs for a row.
    """
    sizes, dense = [], []
    for value in values:
        if isinstance(value, tf.RaggedTensor):
            sizes.append(tf.cast(value.row_lengths(), tf.int32))
            dense.append(value.to_tensor())
            continue
        value = value if value.shape.rank == 2 else value[:, tf.newaxis]
        shape = tf.shape(value)
        sizes.append(tf.fill([shape[0]], shape[1]))
        dense.append(value)
    return tf.raw_ops.EncodeProto(
        sizes=tf.stack(sizes, axis=1),
        values=dense,
        field_names=fields,
        message_type=f"tensorflow.{message}",
        descriptor_source="local://",
    )


def missing_names(spec: FeatureSpec, records: Iterable[bytes]) -> list[str]:
    """The features that groups read and that none of the records has."""
    stored: set[str] = set()
    for record in records:
        parsed = tf.train.SequenceExample.FromString(record)  # Also if it is an Example.
        stored.update(parsed.context.feature, parsed.feature_lists.feature_list)
    return [name for name in spec.used_features() if name not in stored]
