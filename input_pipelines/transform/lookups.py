"""Lookup tables of vocabulary columns and string labels.

A table belongs to the graph or eager context in which it is made. Make it outside of map functions.
A vocabulary file becomes an asset of each SavedModel that is exported with it.
"""

from __future__ import annotations

from typing import Any

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
