"""The reference reading of a spec: real `tf.feature_column` objects.

They feed any canned estimator, and they are what the kit's own, fast reading is held to by test:

    columns = feature_columns(spec, "wide")
    tf.estimator.LinearClassifier(columns).train(...)

Parse records with `example_parsing.make_parse_example_spec`, or `make_parse_sequence_example_spec`;
features with `decode` then go through `decoding.decode_features`. Ragged columns and dynamic
embeddings have none.
Never used by the kit's own training.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from feature_specs.embeddings import pretrained
from feature_specs.embeddings.initializers import initializer
from feature_specs.kinds.column_kinds import (
    Bucketized,
    Crossed,
    DynamicEmbedding,
    Embedding,
    HashBucket,
    Identity,
    Indicator,
    Numeric,
    Ragged,
    SequenceNumeric,
    Vocabulary,
    Weighted,
)
from feature_specs.reference.normalizers import normalizer_fn
from feature_specs.spec import FeatureSpec


def feature_columns(spec: FeatureSpec, group: str) -> list[Any]:
    """One `tf.feature_column` for each column of a group, in its order.

    Raises:
      KeyError: there is no such group; the message lists those there are.
    """
    if group not in spec.groups:
        raise KeyError(f"no group {group!r}; there are {', '.join(spec.groups)}")
    shared = _shared(spec, group)
    return [shared.get(name) or feature_column(spec, name) for name in spec.groups[group]]


def feature_column(spec: FeatureSpec, name: str) -> Any:
    """The `tf.feature_column` that stands for one column of the spec.

    Raises:
      ValueError: the column is ragged or a dynamic embedding, and there is no such feature column.
    """
    column = spec.columns[name]
    if isinstance(column, Ragged):
        raise ValueError(
            f"{spec.source}: column {name!r} is ragged, which no tf.feature_column is; read its "
            "feature in a model of your own, or make an embedding with a combiner of its ids"
        )
    if isinstance(column, DynamicEmbedding):
        raise ValueError(
            f"{spec.source}: column {name!r} is a dynamic_embedding, which no tf.feature_column "
            "is; train it with a ModelFn, or make an embedding of a hash_bucket column"
        )
    if isinstance(column, Numeric):
        return _numeric(spec, column)
    if isinstance(column, SequenceNumeric):
        normalize = normalizer_fn(column.normalizer)
        return tf.feature_column.sequence_numeric_column(
            column.source,
            dtype=tf.as_dtype(spec.features[column.source].dtype),
            # Given a SparseTensor. Always there, since without it TensorFlow fails on integers.
            normalizer_fn=lambda steps: tf.sparse.map_values(normalize, steps),
        )
    if isinstance(column, Bucketized):
        source = _numeric(spec, spec.numeric_source(column))
        return tf.feature_column.bucketized_column(source, list(column.boundaries))
    if isinstance(column, Identity):
        make = _categorical("identity", column)
        return make(column.source, column.size, default_value=column.default_id)
    if isinstance(column, Vocabulary):
        return _vocabulary(spec, column)
    if isinstance(column, HashBucket):
        dtype = tf.as_dtype(spec.features[column.source].dtype)
        return _categorical("hash_bucket", column)(column.source, column.size, dtype=dtype)
    if isinstance(column, Crossed):
        keys = [feature_column(spec, k) if k in spec.columns else k for k in column.sources]
        return tf.feature_column.crossed_column(keys, column.size, hash_key=column.hash_key)
    if isinstance(column, Weighted):
        return tf.feature_column.weighted_categorical_column(
            feature_column(spec, column.source), column.weight
        )
    if isinstance(column, Indicator):
        return tf.feature_column.indicator_column(feature_column(spec, column.source))
    assert isinstance(column, Embedding), column
    return tf.feature_column.embedding_column(
        feature_column(spec, column.source), column.dimension, **_table(spec, name, column)
    )


def _shared(spec: FeatureSpec, group: str) -> dict[str, Any]:
    """The columns of a group that share a table, which TensorFlow wants to make together."""
    by_table: dict[str, list[str]] = {}
    for name in spec.groups[group]:
        column = spec.columns[name]
        if isinstance(column, Embedding) and column.shared is not None:
            by_table.setdefault(column.shared, []).append(name)
    result: dict[str, Any] = {}
    for table, names in by_table.items():
        first = spec.columns[names[0]]
        assert isinstance(first, Embedding)
        categories = [feature_column(spec, spec.category_of(name)[0]) for name in names]
        with tf.Graph().as_default():  # They refuse to be made in eager mode.
            columns = tf.feature_column.shared_embeddings(
                categories,
                first.dimension,
                shared_embedding_collection_name=table,
                **_table(spec, names[0], first),
            )
        result.update(zip(names, columns))
    return result


def _table(spec: FeatureSpec, name: str, column: Embedding) -> dict[str, Any]:
    """What TensorFlow's embedding columns have in common."""
    arguments: dict[str, Any] = {
        "combiner": column.combiner,
        "initializer": initializer(column),
        "max_norm": column.max_norm,
        "trainable": column.trainable,
    }
    if column.pretrained is not None:
        arguments["initializer"] = pretrained.table_initializer(spec, name)
    return arguments


def _categorical(kind: str, column: Identity | Vocabulary | HashBucket) -> Any:
    """The function of `tf.feature_column` that makes such a column, of steps or of records."""
    sequence = "sequence_" if column.sequence else ""
    return getattr(tf.feature_column, f"{sequence}categorical_column_with_{kind}")


def _numeric(spec: FeatureSpec, column: Numeric) -> Any:
    feature = spec.features[column.source]
    return tf.feature_column.numeric_column(
        column.source,
        shape=feature.number_shape or (1,),
        dtype=tf.float32 if feature.decode is not None else tf.as_dtype(feature.dtype),
        normalizer_fn=normalizer_fn(column.normalizer) if column.normalizer else None,
    )


def _vocabulary(spec: FeatureSpec, column: Vocabulary) -> Any:
    dtype = tf.as_dtype(spec.features[column.source].dtype)
    # TensorFlow wants None, not -1, beside out-of-vocabulary buckets.
    outside = {"num_oov_buckets": column.oov_buckets}
    if column.words is not None:
        return _categorical("vocabulary_list", column)(
            column.source, column.words, dtype=dtype, default_value=column.default_id, **outside
        )
    return _categorical("vocabulary_file", column)(
        column.source,
        str(spec.vocabulary_path(column)),
        vocabulary_size=column.size,
        dtype=dtype,
        default_value=None if column.oov_buckets else column.default_id,
        **outside,
    )
