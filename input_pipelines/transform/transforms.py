"""Turns serialized records into ids and numbers, many rows at once.

`Transform` parses a batch of serialized `tf.train.Example`s, or of SequenceExamples if the spec has
feature lists. It turns features into the inputs of the model: float32 numbers or int64 ids, one
entry for each column; see `kinds`. Training, evaluation, prediction and serving all use this class,
in a tf.data map or in the serving graph, so they cannot differ. Its ids are equal, bit for bit, to
the ids of the `tf.feature_column`s of the same spec.

The id -1 means "no id": a missing value, or a word outside a vocabulary that has no
out-of-vocabulary buckets. The weights of a weighted column have a separate entry with the name
`weights_of(column)`, and each feature of the section `raw` has one with the name `raw_of(feature)`.
`Transform` never holds variables and never drops a row.
"""

from __future__ import annotations

import copy
from typing import Any, Optional, Union

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks, decoding, record_kind, stacks
from input_pipelines.transform.batch import Batch
from input_pipelines.transform.kinds import lookup_tables, value_of
from input_pipelines.transform.labels import LabelReader
from input_pipelines.transform.record_parsing import RecordParser

Features = dict[str, Union[tf.Tensor, tf.RaggedTensor]]

_RAW = "/raw"  # No name of a column or feature has a slash.


def weights_of(name: str) -> str:
    """The key in `Features` of the weights of a weighted column."""
    return f"{name}/weights"


def raw_of(feature: str) -> str:
    """The key in `Features` of a feature as the records have it."""
    return f"{feature}{_RAW}"


def raw_feature(key: str) -> Optional[str]:
    """The feature whose `raw_of` is a key in `Features`. None for columns and weights."""
    return key.removesuffix(_RAW) if key.endswith(_RAW) else None


def _read_by_model(spec: FeatureSpec) -> tuple[str, ...]:
    """The columns that the model reads; for embeddings and indicators, their categorical column."""
    return tuple(dict.fromkeys(spec.category_of(name)[0] for name in spec.used_columns()))


class Transform:
    """Parses and transforms batches of one spec.

    Make it in the graph that uses it, outside of map functions: it holds lookup tables.

    Args:
      spec: the feature spec.
    """

    def __init__(self, spec: FeatureSpec):
        self._spec = spec
        self._parser = RecordParser(spec)
        self._outputs = _read_by_model(spec)
        self._tables = lookup_tables(spec)
        self._labels = LabelReader(spec, self._tables)

    def of_part(self, part: FeatureSpec) -> Transform:
        """The transform of a part of the spec, which shares the lookup tables of this one."""
        made = copy.copy(self)
        made._spec, made._parser, made._outputs = part, RecordParser(part), _read_by_model(part)
        return made

    def features(self, serialized: tf.Tensor) -> Features:
        """Transforms a string [rows] of serialized records to `{column: numbers or ids}`.

        Numeric columns are float32 [rows, n] (also images: row by row, pixel by pixel). Categorical
        columns are int64 [rows] for single values, and a `tf.RaggedTensor` of int64 [rows, None]
        for lists. Sequences and ragged columns of numbers are a `tf.RaggedTensor` of float32. Lists
        of lists have one more dimension. -1 means "no id". Features of the section `raw` have the
        values, dtype and shape of the records, also if they have `decode`; lists are ragged.

        Raises (in the graph):
          tf.errors.InvalidArgumentError: a record lacks a required feature, has another dtype or
            length than declared, has a step without exactly one value, contains NaN or infinity,
            contains bytes that cannot be decoded, or has an identity id outside its size.
        """
        return self._columns(self._parser.parse(serialized, with_labels=False))

    def features_of(self, parsed: dict[str, Any]) -> Features:
        """Like `features`, from the result of `record_parsing.RecordParser.flat` without labels."""
        return self._columns(self._parser.checked(parsed))

    def features_and_labels(self, serialized: tf.Tensor) -> tuple[Features, dict[str, tf.Tensor]]:
        """Like `features`, and also `{label: value}`; see `labels.LabelReader.read`.

        Labels are only read from files, so this also checks the kind of each record; see
        `record_kind`.
        """
        serialized = record_kind.checked(self._spec, serialized)
        parsed = self._parser.parse(serialized, with_labels=True)
        return self._columns(parsed), self._labels.read(parsed)

    def _columns(self, parsed: dict[str, Any]) -> Features:
        spec = self._spec
        batch = Batch(spec, decoding.decoded(spec, parsed), self._tables)
        with tf.name_scope("transform"):
            # Numbers come first, because buckets are made from them.
            batch.made.update(stacks.numbers(batch))
            batch.made.update(stacks.ids(batch))
            batch.present.update(stacks.present(batch))
            found = stacks.masked({name: value_of(batch, name) for name in self._outputs})
            result: Features = {}
            for name, values in found.items():
                result[name] = values
                column = spec.columns[name]
                if column.weighted_by is not None:
                    result[weights_of(name)] = checks.weights_of_ids(
                        column, values, batch.parsed[column.weighted_by]
                    )
            for group, names in spec.groups.items():
                steps = [spec.category_of(n)[0] for n in names if spec.is_sequence(n)]
                if steps:
                    result.update(checks.same_lengths(group, {n: result[n] for n in steps}))
            for name in spec.raw:
                # Not from the batch, whose bytes are decoded.
                result[raw_of(name)] = checks.finite_feature(name, parsed[name])
        return result
