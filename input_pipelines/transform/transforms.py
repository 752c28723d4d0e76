"""The fast reading's first half: serialized records to ids and numbers, many rows at once.

`Transform` parses a batch of serialized `tf.train.Example`s, or of SequenceExamples if the spec has
feature lists, and turns features into what the model gathers from: float32 numbers and int64 ids,
one entry a column. Training, evaluation, prediction and serving all call this one class, in a
tf.data map or in the serving graph, so they cannot differ. It gives the same ids, bit for bit, as
the `tf.feature_column` of the same spec.

An id of -1 stands for "none": a missing value, or a word outside a vocabulary without
out-of-vocabulary buckets. The weights of a weighted column are beside its ids, under the name that
`weights_of` gives. It never holds variables and never drops a row.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from typing import Any, Union

import tensorflow as tf

from feature_specs.kinds.column_kinds import (
    Bucketized,
    Crossed,
    DynamicEmbedding,
    HashBucket,
    Identity,
    Numeric,
    Ragged,
    SequenceNumeric,
    Vocabulary,
    Weighted,
)
from feature_specs.reference.normalizers import normalizer_fn
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks, decoding, lookups, record_kind
from input_pipelines.transform.labels import LabelReader
from input_pipelines.transform.record_parsing import RecordParser

Features = dict[str, Union[tf.Tensor, tf.RaggedTensor]]

# Categorical columns over a feature, and those that are like them.
_OfFeature = Union[Identity, Vocabulary, HashBucket, DynamicEmbedding]

# Keys of strings in a dynamic embedding are FarmHash64 modulo this.
_FINGERPRINTS = 2**63 - 1

# The hash key of `tf.feature_column.crossed_column`, whose crosses ours must equal.
_DEFAULT_HASH_KEY = 0xDECAFCAFFE


def weights_of(name: str) -> str:
    """Where `Features` has the weights of the ids of a weighted column."""
    return f"{name}/weights"


@dataclasses.dataclass(frozen=True)
class _Ids:
    """Ids of a categorical column before missing values are struck out.

    A missing value has no part in a cross, while a word outside a vocabulary crosses as -1;
    so the two are kept apart until the end.

    Attributes:
      values: int64 [rows], or a RaggedTensor [rows, None].
      present: bool [rows], or None when all values are there (always so for lists).
    """

    values: Union[tf.Tensor, tf.RaggedTensor]
    present: Any = None

    def masked(self) -> Union[tf.Tensor, tf.RaggedTensor]:
        if self.present is None:
            return self.values
        return tf.where(self.present, self.values, tf.constant(-1, tf.int64))


class Transform:
    """Parses and transforms batches of one spec.

    Make it in the graph that uses it (it holds lookup tables), outside of any map function.

    Args:
      spec: the feature spec.
    """

    def __init__(self, spec: FeatureSpec):
        self._spec = spec
        self._parser = RecordParser(spec)
        # What the model reads: categorical columns under embeddings and indicators, once each.
        self._outputs = tuple(
            dict.fromkeys(spec.category_of(name)[0] for name in spec.used_columns())
        )
        self._tables = {
            name: lookups.make_table(spec, column)
            for name, column in spec.columns.items()
            if isinstance(column, Vocabulary)
        }
        self._labels = LabelReader(spec)

    def features(self, serialized: tf.Tensor) -> Features:
        """A string [rows] of serialized records as `{column: numbers or ids}`.

        Numeric columns are float32 [rows, n] (images, too: row by row, pixel by pixel), single-
        valued categorical ones int64 [rows], lists a `tf.RaggedTensor` of int64 [rows, None],
        sequences and ragged columns of numbers one of float32. Lists of lists have one dimension
        more. -1 is no id.

        Raises (in the graph):
          tf.errors.InvalidArgumentError: a record lacks a required feature, has another dtype or
            length than declared or a step without one value, holds NaN or infinity, bytes that
            cannot be decoded, or an identity id outside its size.
        """
        return self._columns(self._parser.parse(serialized, with_labels=False))

    def features_of(self, parsed: dict[str, Any]) -> Features:
        """As `features`, of what `record_parsing.RecordParser.flat` gives without labels."""
        return self._columns(self._parser.checked(parsed))

    def features_and_labels(self, serialized: tf.Tensor) -> tuple[Features, dict[str, tf.Tensor]]:
        """As `features`, and `{label: value}`; see `labels.LabelReader.read`.

        Labels are of files alone; so no record may be of the other kind, see `record_kind`.
        """
        serialized = record_kind.checked(self._spec, serialized)
        parsed = self._parser.parse(serialized, with_labels=True)
        return self._columns(parsed), self._labels.read(parsed)

    def _columns(self, parsed: dict[str, Any]) -> Features:
        result: Features = {}
        parsed = decoding.decoded(self._spec, parsed)
        cache: dict[str, _Ids] = self._hashed(parsed)
        with tf.name_scope("transform"):
            numbers = {
                name: self._number(column, parsed)
                for name, column in self._spec.columns.items()
                if isinstance(column, Numeric)
            }
            numbers = self._finite(numbers)
            for name in self._outputs:
                if name in numbers:
                    result[name] = numbers[name]
                elif isinstance(self._spec.columns[name], (SequenceNumeric, Ragged)):
                    result[name] = self._steps(name, parsed)
                else:
                    result[name] = self._ids(name, parsed, numbers, cache).masked()
                column = self._spec.columns[name]
                if isinstance(column, Weighted):
                    weights = checks.weights_of_ids(column, result[name], parsed[column.weight])
                    result[weights_of(name)] = weights
            for group, names in self._spec.groups.items():
                steps = [self._spec.category_of(n)[0] for n in names if self._spec.is_sequence(n)]
                if steps:
                    result.update(checks.same_lengths(group, {n: result[n] for n in steps}))
        return result

    def _finite(self, numbers: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """All small columns behind one check; each that is decoded behind its own, uncopied."""
        features = self._spec.features
        large = [n for n in numbers if features[self._source(n)].decode is not None]
        result = checks.finite({n: values for n, values in numbers.items() if n not in large})
        for name in large:
            result = {**result, **checks.finite({name: numbers[name]})}
        return result

    def _number(self, column: Numeric, parsed: dict[str, Any]) -> tf.Tensor:
        length = self._spec.features[column.source].width
        return normalizer_fn(column.normalizer)(tf.reshape(parsed[column.source], [-1, length]))

    def _steps(self, name: str, parsed: dict[str, Any]) -> tf.RaggedTensor:
        column = self._spec.columns[name]
        assert isinstance(column, (SequenceNumeric, Ragged))
        steps = parsed[column.source]
        flat = normalizer_fn(column.normalizer)(steps.flat_values)
        flat = checks.finite({column.source: flat[:, tf.newaxis]})[column.source][:, 0]
        return steps.with_flat_values(flat)

    def _hashed(self, parsed: dict[str, Any]) -> dict[str, _Ids]:
        """All single-valued hash_bucket columns of strings, stacked by size: one op for each."""
        by_size: dict[int, list[str]] = defaultdict(list)
        for name, column in self._spec.columns.items():
            if isinstance(column, HashBucket) and column.source in parsed:
                feature = self._spec.features[column.source]
                if feature.single and feature.dtype == "string":
                    by_size[column.size].append(name)
        result = {}
        for size, names in by_size.items():
            words = tf.stack([parsed[self._source(name)] for name in names])
            ids = tf.unstack(tf.strings.to_hash_bucket_fast(words, size), num=len(names))
            present = tf.unstack(tf.not_equal(words, ""), num=len(names))
            result.update({n: _Ids(i, p) for n, i, p in zip(names, ids, present)})
        return result

    def _source(self, name: str) -> str:
        return next(self._spec.features_of(name))

    def _ids(
        self,
        name: str,
        parsed: dict[str, Any],
        numbers: dict[str, tf.Tensor],
        cache: dict[str, _Ids],
    ) -> _Ids:
        if name not in cache:
            column = self._spec.columns[name]
            if isinstance(column, Bucketized):
                cache[name] = _Ids(self._buckets(column, parsed, numbers))
            elif isinstance(column, Weighted):
                cache[name] = self._ids(column.source, parsed, numbers, cache)
            elif isinstance(column, Crossed):
                keys = [
                    self._ids(key, parsed, numbers, cache) if key in self._spec.columns else None
                    for key in column.sources
                ]
                cache[name] = self._cross(column, keys, parsed)
            else:
                assert isinstance(column, (Identity, Vocabulary, HashBucket, DynamicEmbedding))
                cache[name] = self._lookup(name, column, parsed[column.source])
        return cache[name]

    def _buckets(
        self, column: Bucketized, parsed: dict[str, Any], numbers: dict[str, tf.Tensor]
    ) -> Union[tf.Tensor, tf.RaggedTensor]:
        """The bucket of one number, int64 [rows], or of each of several, ragged [rows, None].

        Each of several numbers has buckets of its own, as in `bucketized_column`.
        """
        if column.source in numbers:
            values = numbers[column.source]
        else:
            values = self._number(self._spec.numeric_source(column), parsed)
            values = checks.finite({column.source: values})[column.source]
        # The op that feature columns use; it ships no v2 name.
        bucket = tf.raw_ops.Bucketize(input=values, boundaries=list(column.boundaries))
        count = values.shape[1]
        if count == 1:
            return tf.cast(bucket[:, 0], tf.int64)
        first = tf.range(count, dtype=tf.int64) * (len(column.boundaries) + 1)
        return tf.RaggedTensor.from_tensor(tf.cast(bucket, tf.int64) + first)

    def _lookup(self, name: str, column: _OfFeature, values: Any) -> _Ids:
        if isinstance(values, tf.RaggedTensor):
            flat = self._lookup_flat(name, column, values.flat_values)
            return _Ids(values.with_flat_values(flat))
        present = tf.logical_not(lookups.is_missing(values))
        if isinstance(column, Identity) and column.default_id is None:
            values = checks.in_range(column, tf.where(present, values, tf.zeros_like(values)))
        return _Ids(self._lookup_flat(name, column, values, checked=True), present)

    def _lookup_flat(
        self,
        name: str,
        column: _OfFeature,
        values: tf.Tensor,
        *,
        checked: bool = False,
    ) -> tf.Tensor:
        if isinstance(column, Vocabulary):
            return self._tables[name].lookup(values)
        if isinstance(column, HashBucket):
            text = values if values.dtype == tf.string else tf.strings.as_string(values)
            return tf.strings.to_hash_bucket_fast(text, column.size)
        if isinstance(column, DynamicEmbedding):
            # A fingerprint that is never -1.
            is_string = values.dtype == tf.string
            return tf.strings.to_hash_bucket_fast(values, _FINGERPRINTS) if is_string else values
        if column.default_id is None:
            return values if checked else checks.in_range(column, values)
        outside = (values < 0) | (values >= column.size)
        return tf.where(outside, tf.constant(column.default_id, tf.int64), values)

    def _cross(
        self, column: Crossed, keys: list[Union[_Ids, None]], parsed: dict[str, Any]
    ) -> _Ids:
        # Feature columns cross their sparse inputs first, then the dense ones, whatever the order
        # of the keys; a feature with one value a row is dense there and crosses even when empty.
        first: list[_Ids] = []
        last: list[_Ids] = []
        for ids, source in zip(keys, column.sources):
            if ids is not None:
                first.append(ids)
            elif isinstance(parsed[source], tf.RaggedTensor):
                first.append(_Ids(parsed[source]))
            else:
                last.append(_Ids(parsed[source]))
        cross = functools.partial(
            _sparse_cross, size=column.size, hash_key=column.hash_key or _DEFAULT_HASH_KEY
        )
        inputs = first + last
        if any(isinstance(ids.values, tf.RaggedTensor) for ids in inputs):
            sparse = cross(sparse=[_to_sparse(i) for i in first], dense=[i.values for i in last])
            return _Ids(tf.RaggedTensor.from_sparse(sparse))
        values = cross(sparse=[], dense=[ids.values for ids in inputs]).values
        present = [ids.present for ids in inputs if ids.present is not None]
        return _Ids(values, functools.reduce(tf.logical_and, present) if present else None)


def _to_sparse(ids: _Ids) -> tf.SparseTensor:
    if isinstance(ids.values, tf.RaggedTensor):
        return ids.values.to_sparse()
    values = ids.values[:, tf.newaxis]
    present = ids.present if ids.present is not None else tf.ones_like(ids.values, tf.bool)
    where = tf.where(present[:, tf.newaxis])
    return tf.SparseTensor(where, tf.gather_nd(values, where), tf.shape(values, tf.int64))


def _sparse_cross(
    *, sparse: list[tf.SparseTensor], dense: list[tf.Tensor], size: int, hash_key: int
) -> tf.SparseTensor:
    """The op of `crossed_column`, which takes dense inputs beside sparse ones."""
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
