"""Transforms the parsed features of a batch, for each column kind: the closed table `TRANSFORMS`.

    batch = Batch(spec, parsed, lookup_tables(spec))
    value_of(batch, "user")                 # `Ids`, or a tensor of numbers

A transform is a function of the batch, the column's name and the column. `Transform` calls these
functions for columns that `stacks` has not made, and adds missing ids and checks. It makes the
lookup tables once, because they belong to the graph and not to one batch. The ids are equal to the
ids of `tf.feature_column`, bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from feature_specs.kinds import (
    Bucketized,
    Column,
    Crossed,
    Embedding,
    Growing,
    HashBucket,
    Identity,
    Indicator,
    IsMissing,
    Numeric,
    Ragged,
    SequenceNumeric,
    Time,
    Vocabulary,
    Weighted,
)
from feature_specs.kinds.categorical import Lookup
from feature_specs.kinds.missing import marker
from feature_specs.reference.ops import integer_buckets, normalizer_fn, replaced_fn
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks, times
from input_pipelines.transform.batch import Batch, Ids, Made, make_table

# The hash key of `tf.feature_column.crossed_column`. Our crosses must be equal to its crosses.
_DEFAULT_HASH_KEY = 0xDECAFCAFFE


def lookup_tables(spec: FeatureSpec) -> dict[str, Any]:
    """The tables of all vocabulary columns, by column, in the current graph."""
    columns = spec.of_kind(Vocabulary)
    return {name: make_table(spec, column) for name, column in columns.items()}


def value_of(batch: Batch, name: str) -> Made:
    """The value of a column in a batch. It is made only once."""
    if name not in batch.made:
        column = batch.spec.columns[name]
        transform = TRANSFORMS.get(type(column))
        if transform is None:
            supported = ", ".join(
                kind.kind for kind, function in TRANSFORMS.items() if function is not None
            )
            raise TypeError(
                f"column {name!r} is {column.kind}, expected a kind with a transform: {supported}"
            )
        batch.made[name] = transform(batch, name, column)
    return batch.made[name]


def _numbers(batch: Batch, name: str, column: Numeric) -> tf.Tensor:
    """float32 [rows, n]. `Transform` checks many columns at once for NaN and infinity."""
    length = batch.spec.features[column.source].width
    numbers = tf.reshape(batch.parsed[column.source], [-1, length])
    return normalizer_fn(column.normalizer)(_replaced(batch, column, numbers))


def _replaced(batch: Batch, column: Numeric, numbers: tf.Tensor) -> tf.Tensor:
    """The stored numbers with `missing` of the column in place of missing values."""
    replace = replaced_fn([column.replaced(batch.spec)], [1])
    return numbers if replace is None else replace(numbers)


def _list_of_numbers(
    batch: Batch, name: str, column: Union[SequenceNumeric, Ragged]
) -> tf.RaggedTensor:
    steps = batch.parsed[column.source]
    flat = normalizer_fn(column.normalizer)(steps.flat_values)
    flat = checks.finite({column.source: flat[:, tf.newaxis]})[column.source][:, 0]
    return steps.with_flat_values(flat)


def _buckets(batch: Batch, name: str, column: Bucketized) -> Ids:
    """The bucket of a single number, int64 [rows], or of each of several, ragged [rows, None].

    If a feature has several numbers, each has separate buckets, as in `bucketized_column`.
    """
    bucket = bucket_of(compared(batch, column), column.limits(batch.spec))
    if column.missing is not None:
        bucket = with_missing(batch, [column], bucket)
    count = bucket.shape[1]
    if count == 1:
        return Ids(tf.cast(bucket[:, 0], tf.int64))
    first = tf.range(count, dtype=tf.int64) * column.buckets
    return Ids(tf.RaggedTensor.from_tensor(tf.cast(bucket, tf.int64) + first))


def compared(batch: Batch, column: Bucketized) -> tf.Tensor:
    """What a bucketized column compares with its `limits`, [rows, n], checked.

    Numbers of an int64 feature are int64, before normalizers. Others are float32, after them.
    """
    spec = batch.spec
    numeric = column.numeric(spec)
    if spec.features[numeric.source].dtype != "int64":
        if column.below(spec):
            numbers: tf.Tensor = batch.made[column.source]
            return numbers
        return checks.all_finite([column.source], _numbers(batch, column.source, numeric))
    values = _stored(batch, column)
    if not column.below(spec):
        return values
    values = _replaced(batch, numeric, values)
    # A normalized number that is not finite is an error, also if only its bucket is used.
    with tf.control_dependencies([batch.made[column.source]]):
        return tf.identity(values)


def _stored(batch: Batch, column: Bucketized) -> tf.Tensor:
    """The numbers of its feature as records have them, [rows, n]."""
    source = column.numeric(batch.spec).source
    return tf.reshape(batch.parsed[source], [-1, batch.spec.features[source].width])


def with_missing(batch: Batch, columns: Sequence[Bucketized], buckets: tf.Tensor) -> tf.Tensor:
    """The buckets of columns with `own_bucket`, int32 [rows, n]: missing values get the last one.

    Several columns have one number each, of one dtype.
    """
    stored = [_stored(batch, column) for column in columns]
    values = tf.concat(stored, axis=1) if len(stored) > 1 else stored[0]
    sources = [column.numeric(batch.spec).source for column in columns]
    markers = tf.constant([marker(batch.spec.features[s]) for s in sources], values.dtype)
    last = tf.constant([column.buckets - 1 for column in columns], tf.int32)
    return tf.where(tf.equal(values, markers), last, buckets)


def _is_missing(batch: Batch, name: str, column: IsMissing) -> Ids:
    feature = batch.spec.features[column.source]
    values = checks.finite_feature(column.source, batch.parsed[column.source])
    values = tf.reshape(values, [-1, feature.length])
    is_missing = tf.reduce_all(tf.equal(values, tf.constant(marker(feature), values.dtype)), axis=1)
    return Ids(tf.cast(is_missing, tf.int64))


def _time(batch: Batch, name: str, column: Time) -> Ids:
    key = column.source, column.format
    if key not in batch.times:
        batch.times[key] = times.parsed(batch.parsed[column.source], column.format)
    return Ids(times.part(batch.times[key], column.part), batch.times[key].readable)


def bucket_of(values: tf.Tensor, limits: Sequence[Union[int, float]]) -> tf.Tensor:
    """The bucket of each number of `compared`, int32 of the same shape."""
    if values.dtype == tf.int64:
        return integer_buckets(values, limits)
    # The op that feature columns use; it ships no v2 name.
    return tf.raw_ops.Bucketize(input=values, boundaries=list(limits))


def _looked_up(batch: Batch, column: Lookup, ids_of: Callable[[tf.Tensor], tf.Tensor]) -> Ids:
    """The ids of lists, or of one value in each row, which may be missing."""
    values = batch.parsed[column.source]
    if isinstance(values, tf.RaggedTensor):
        return Ids(values.with_flat_values(ids_of(values.flat_values)))
    present = batch.present_of(column.source)
    if column.id_bounds is not None:
        # A missing value is not an error.
        values = tf.where(present, values, tf.zeros_like(values))
    return Ids(ids_of(values), present)


def _identity(batch: Batch, name: str, column: Identity) -> Ids:
    def ids_of(values: tf.Tensor) -> tf.Tensor:
        if column.default_id is None:
            return checks.in_range(column, values)
        outside = (values < 0) | (values >= column.size)
        return tf.where(outside, tf.constant(column.default_id, tf.int64), values)

    return _looked_up(batch, column, ids_of)


def _vocabulary(batch: Batch, name: str, column: Vocabulary) -> Ids:
    return _looked_up(batch, column, batch.tables[name].lookup)


def _hash_bucket(batch: Batch, name: str, column: HashBucket) -> Ids:
    def ids_of(values: tf.Tensor) -> tf.Tensor:
        return hashed(values, column.size, tf.constant(column.salt) if column.salt else None)

    return _looked_up(batch, column, ids_of)


def hashed(values: tf.Tensor, size: int, salt: Optional[tf.Tensor] = None) -> tf.Tensor:
    """The ids of values, without regard to missing ones. `salt` is a text, or one for each row."""
    text = values if values.dtype == tf.string else tf.strings.as_string(values)
    return tf.strings.to_hash_bucket_fast(text if salt is None else salt + text, size)


def _keys(batch: Batch, name: str, column: Growing) -> Ids:
    def keys_of(values: tf.Tensor) -> tf.Tensor:
        # A fingerprint is never -1.
        is_string = values.dtype == tf.string
        return tf.strings.to_hash_bucket_fast(values, column.fingerprints) if is_string else values

    return _looked_up(batch, column, keys_of)


def _weighted(batch: Batch, name: str, column: Weighted) -> Made:
    return value_of(batch, column.source)


def _crossed(batch: Batch, name: str, column: Crossed) -> Ids:
    # Feature columns cross their sparse inputs first, then the dense ones, in any order of the
    # keys. There, a feature with one value in a row is dense, and crosses even when it is empty.
    first: list[Ids] = []
    last: list[Ids] = []
    column_values = {
        key: value_of(batch, key) for key in column.sources if key in batch.spec.columns
    }
    for key in column.sources:
        if key in column_values:
            first.append(column_values[key])
        elif isinstance(batch.parsed[key], tf.RaggedTensor):
            first.append(Ids(batch.parsed[key]))
        else:
            last.append(Ids(batch.parsed[key]))
    cross = functools.partial(
        _sparse_cross, size=column.size, hash_key=column.hash_key or _DEFAULT_HASH_KEY
    )
    inputs = first + last
    if any(isinstance(ids.values, tf.RaggedTensor) for ids in inputs):
        sparse = cross(sparse=[_to_sparse(i) for i in first], dense=[i.values for i in last])
        return Ids(_to_ragged(sparse))
    values = cross(sparse=[], dense=[ids.values for ids in inputs]).values
    present = [ids.present for ids in inputs if ids.present is not None]
    return Ids(values, functools.reduce(tf.logical_and, present) if present else None)


def _to_sparse(ids: Ids) -> tf.SparseTensor:
    if isinstance(ids.values, tf.RaggedTensor):
        return ids.values.to_sparse()
    values = ids.values[:, tf.newaxis]
    present = ids.present if ids.present is not None else tf.ones_like(ids.values, tf.bool)
    where = tf.where(present[:, tf.newaxis])
    return tf.SparseTensor(where, tf.gather_nd(values, where), tf.shape(values, tf.int64))


def _to_ragged(crossed: tf.SparseTensor) -> tf.RaggedTensor:
    """The values of a cross by row.

    `SparseCross` returns them in row order, so this needs no checks, unlike
    `tf.RaggedTensor.from_sparse`.
    """
    # TensorFlow Lite has segment sums of int32, but not of int64.
    rows = tf.cast(crossed.indices[:, 0], tf.int32)
    lengths = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, crossed.dense_shape[0])
    lengths = tf.cast(lengths, tf.int64)
    return tf.RaggedTensor.from_row_lengths(crossed.values, lengths, validate=False)


def _sparse_cross(
    *, sparse: list[tf.SparseTensor], dense: list[tf.Tensor], size: int, hash_key: int
) -> tf.SparseTensor:
    """The op of `crossed_column`, which takes both dense and sparse inputs."""
    columns = [*(s.values for s in sparse), *dense]
    strings = all(column.dtype == tf.string for column in columns)
    result = tf.raw_ops.SparseCross(
        indices=[s.indices for s in sparse],
        values=[s.values for s in sparse],
        shapes=[s.dense_shape for s in sparse],
        dense_inputs=[d[:, tf.newaxis] for d in dense],
        hashed_output=True,
        num_buckets=size,
        hash_key=hash_key,
        out_type=tf.int64,
        internal_type=tf.string if strings else tf.int64,
    )
    return tf.SparseTensor(result.output_indices, result.output_values, result.output_shape)


# None: the model makes embeddings and indicators itself, from the ids of their source columns.
TRANSFORMS: dict[type[Column], Optional[Callable[[Batch, str, Any], Made]]] = {
    Numeric: _numbers,
    SequenceNumeric: _list_of_numbers,
    Ragged: _list_of_numbers,
    Bucketized: _buckets,
    IsMissing: _is_missing,
    Identity: _identity,
    Time: _time,
    Vocabulary: _vocabulary,
    HashBucket: _hash_bucket,
    Crossed: _crossed,
    Weighted: _weighted,
    Indicator: None,
    Embedding: None,
    Growing: _keys,
}
