"""The reference reading of a spec: real `tf.feature_column` objects.

They feed any canned estimator, and they are what the kit's own, fast reading is held to by test:

    columns = feature_columns(spec, "wide")
    tf.estimator.LinearClassifier(columns).train(...)

Parse records with `example_parsing.make_parse_example_spec`. Never used by the kit's own training.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from feature_specs.column_kinds import (
    Bucketized,
    Crossed,
    Embedding,
    HashBucket,
    Identity,
    Indicator,
    Numeric,
    Vocabulary,
)
from feature_specs.normalizers import normalizer_fn
from feature_specs.schema import FeatureSpec


def feature_columns(spec: FeatureSpec, group: str) -> list[Any]:
    """One `tf.feature_column` for each column of a group, in its order.

    Raises:
      KeyError: there is no such group; the message lists those there are.
    """
    if group not in spec.groups:
        raise KeyError(f"no group {group!r}; there are {', '.join(spec.groups)}")
    return [feature_column(spec, name) for name in spec.groups[group]]


def feature_column(spec: FeatureSpec, name: str) -> Any:
    """The `tf.feature_column` that stands for one column of the spec."""
    column = spec.columns[name]
    if isinstance(column, Numeric):
        return _numeric(spec, column)
    if isinstance(column, Bucketized):
        source = _numeric(spec, spec.numeric_source(column))
        return tf.feature_column.bucketized_column(source, list(column.boundaries))
    if isinstance(column, Identity):
        return tf.feature_column.categorical_column_with_identity(
            column.source, column.size, default_value=column.default_id
        )
    if isinstance(column, Vocabulary):
        return _vocabulary(spec, column)
    if isinstance(column, HashBucket):
        return tf.feature_column.categorical_column_with_hash_bucket(
            column.source, column.size, dtype=tf.as_dtype(spec.features[column.source].dtype)
        )
    if isinstance(column, Crossed):
        keys = [feature_column(spec, k) if k in spec.columns else k for k in column.sources]
        return tf.feature_column.crossed_column(keys, column.size, hash_key=column.hash_key)
    if isinstance(column, Indicator):
        return tf.feature_column.indicator_column(feature_column(spec, column.source))
    assert isinstance(column, Embedding), column
    initializer = None
    if column.stddev is not None:
        initializer = tf.compat.v1.truncated_normal_initializer(stddev=column.stddev)
    return tf.feature_column.embedding_column(
        feature_column(spec, column.source),
        column.dimension,
        combiner=column.combiner,
        initializer=initializer,
    )


def _numeric(spec: FeatureSpec, column: Numeric) -> Any:
    feature = spec.features[column.source]
    return tf.feature_column.numeric_column(
        column.source,
        shape=feature.shape or (1,),
        dtype=tf.as_dtype(feature.dtype),
        normalizer_fn=normalizer_fn(column.normalizer) if column.normalizer else None,
    )


def _vocabulary(spec: FeatureSpec, column: Vocabulary) -> Any:
    dtype = tf.as_dtype(spec.features[column.source].dtype)
    # TensorFlow wants None, not -1, beside out-of-vocabulary buckets.
    outside = {"num_oov_buckets": column.oov_buckets}
    if column.words is not None:
        return tf.feature_column.categorical_column_with_vocabulary_list(
            column.source, column.words, dtype=dtype, default_value=column.default_id, **outside
        )
    return tf.feature_column.categorical_column_with_vocabulary_file(
        column.source,
        str(spec.vocabulary_path(column)),
        vocabulary_size=column.size,
        dtype=dtype,
        default_value=None if column.oov_buckets else column.default_id,
        **outside,
    )
