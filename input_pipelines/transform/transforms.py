"""The fast reading's first half: serialized records to ids and numbers, many rows at once.

`Transform` parses a batch of serialized `tf.train.Example`s, or of SequenceExamples if the spec has
feature lists, and turns features into what the model gathers from: float32 numbers and int64 ids,
one entry a column; `kinds` says how. Training, evaluation, prediction and serving all call this one
class, in a tf.data map or in the serving graph, so they cannot differ. It gives the same ids, bit
for bit, as the `tf.feature_column` of the same spec.

An id of -1 stands for "none": a missing value, or a word outside a vocabulary without
out-of-vocabulary buckets. The weights of a weighted column are beside its ids, under the name that
`weights_of` gives. It never holds variables and never drops a row.
"""

from __future__ import annotations

from typing import Any, Union

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks, decoding, record_kind
from input_pipelines.transform.kinds import Batch, Ids, lookup_tables, stacked_hashes, value_of
from input_pipelines.transform.labels import LabelReader
from input_pipelines.transform.record_parsing import RecordParser

Features = dict[str, Union[tf.Tensor, tf.RaggedTensor]]


def weights_of(name: str) -> str:
    """Where `Features` has the weights of the ids of a weighted column."""
    return f"{name}/weights"


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
        self._tables = lookup_tables(spec)
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
        spec, result = self._spec, {}
        batch = Batch(spec, decoding.decoded(spec, parsed), self._tables)
        batch.made.update(stacked_hashes(batch))
        with tf.name_scope("transform"):
            # All of them first, as one check goes over many, and buckets are made of them.
            numbers = {
                name: value_of(batch, name)
                for name, column in spec.columns.items()
                if column.is_numbers(spec)
            }
            batch.made.update(self._finite(numbers))
            for name in self._outputs:
                made = value_of(batch, name)
                result[name] = made.masked() if isinstance(made, Ids) else made
                column = spec.columns[name]
                if column.weighted_by is not None:
                    result[weights_of(name)] = checks.weights_of_ids(
                        column, result[name], batch.parsed[column.weighted_by]
                    )
            for group, names in spec.groups.items():
                steps = [spec.category_of(n)[0] for n in names if spec.is_sequence(n)]
                if steps:
                    result.update(checks.same_lengths(group, {n: result[n] for n in steps}))
        return result

    def _finite(self, numbers: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """All small columns behind one check; each that is decoded behind its own, uncopied."""
        spec = self._spec
        large = [n for n in numbers if spec.features[next(spec.features_of(n))].decode is not None]
        result = checks.finite({n: values for n, values in numbers.items() if n not in large})
        for name in large:
            result = {**result, **checks.finite({name: numbers[name]})}
        return result
