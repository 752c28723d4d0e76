"""A batch of records while `Transform` turns it into columns: its ids and its lookup tables.

    batch = Batch(spec, parsed, tables)
    batch.present_of("city")                # bool [rows]: which rows have a value
    Ids(values, present).masked()           # -1 where the value is missing

`kinds` makes single columns of a batch, and `stacks` makes many columns with the same ops.

A lookup table belongs to the graph or eager context in which it is made. Make it outside of map
functions. A vocabulary file becomes an asset of each SavedModel that is exported with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Union

import numpy as np
import tensorflow as tf

from feature_specs.kinds import Vocabulary
from feature_specs.spec import FeatureSpec


def is_missing(values: tf.Tensor) -> tf.Tensor:
    """Which values (string or int64) are treated as missing, as in feature columns: `""` and -1."""
    return tf.equal(values, _missing(values.dtype))


def is_present(values: tf.Tensor) -> tf.Tensor:
    """The opposite of `is_missing`."""
    return tf.not_equal(values, _missing(values.dtype))


def _missing(dtype: tf.DType) -> tf.Tensor:
    return tf.constant("" if dtype == tf.string else -1, dtype)


def make_table(spec: FeatureSpec, column: Vocabulary) -> Any:
    """The table from words (string or int64) to ids (int64) of a vocabulary column."""
    dtype = tf.as_dtype(spec.features[column.source].dtype)
    if column.words is not None:
        return list_table(column.words, dtype, column.default_id, column.oov_buckets)
    initializer = tf.lookup.TextFileInitializer(
        str(column.path(spec)),
        key_dtype=dtype,
        key_index=tf.lookup.TextFileIndex.WHOLE_LINE,
        value_dtype=tf.int64,
        value_index=tf.lookup.TextFileIndex.LINE_NUMBER,
        vocab_size=column.size,
    )
    return _table(initializer, column.default_id, column.oov_buckets)


def list_table(words: Any, dtype: tf.DType, default: int, oov_buckets: int = 0) -> Any:
    """A table from words to their positions in a list. Other words: `default`, or an oov bucket."""
    ids = np.arange(len(words), dtype=np.int64)
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(words, dtype), ids)
    return _table(initializer, default, oov_buckets)


def _table(initializer: Any, default: int, oov_buckets: int) -> Any:
    if oov_buckets:
        return tf.lookup.StaticVocabularyTable(initializer, oov_buckets)
    return tf.lookup.StaticHashTable(initializer, default)


@dataclasses.dataclass(frozen=True)
class Ids:
    """Ids of a categorical column before missing values are replaced by -1.

    A missing value has no cross, but a word outside a vocabulary crosses as -1. So the two are kept
    apart until the end.

    Attributes:
      values: int64 [rows], or a RaggedTensor [rows, None].
      present: bool [rows], or None if no value is missing (always None for lists).
    """

    values: Union[tf.Tensor, tf.RaggedTensor]
    present: Any = None

    def masked(self) -> Union[tf.Tensor, tf.RaggedTensor]:
        if self.present is None:
            return self.values
        return tf.where(self.present, self.values, tf.constant(-1, tf.int64))


Made = Union[Ids, tf.Tensor, tf.RaggedTensor]


@dataclasses.dataclass
class Batch:
    """A batch of records while it is transformed.

    Attributes:
      spec: the feature spec.
      parsed: the parsed and decoded features.
      tables: the lookup tables of vocabulary columns, by column.
      made: the columns that were made so far. Its numbers were checked to be finite.
      present: for features of one value, which rows have one: bool [rows], as far as it was made.
      times: `times.Times` by feature and format, as far as they were made.
    """

    spec: FeatureSpec
    parsed: Mapping[str, Any]
    tables: Mapping[str, Any]
    made: dict[str, Made] = dataclasses.field(default_factory=dict)
    present: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    times: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict)

    def present_of(self, feature: str) -> tf.Tensor:
        """Which rows have a value of a feature of one value: bool [rows]."""
        if feature not in self.present:
            self.present[feature] = is_present(self.parsed[feature])
        return self.present[feature]
