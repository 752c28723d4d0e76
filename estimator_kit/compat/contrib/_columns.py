"""What to use instead of the feature columns of tf.contrib.layers.

They belong to a separate engine, with other default values and variable names than
tf.feature_column. So a program has to be changed by its author, and its numbers can differ.
"""

from __future__ import annotations


def _write(new: str, note: str = "") -> str:
    return f"Write tf.feature_column.{new} instead.{' ' if note else ''}{note}"


_LAYER = "tf.feature_column.input_layer(features, columns)"
_LINEAR = "tf.feature_column.linear_model(features, columns, units=...)"
_SPEC = "tf.feature_column.make_parse_example_spec(columns)"
_TARGETS = "Use a head of tf.estimator, such as tf.estimator.{}."

_SHARED = "Its table is updated by the gradients of all columns."
_OF_IDS = "Wrap it in indicator_column or embedding_column for a deep model."

REMEDIES = {
    "SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY": _write(
        "crossed_column(keys, hash_bucket_size)", "Its hash differs."
    ),
    "bucketized_column": _write("bucketized_column(numeric_column, boundaries)"),
    "check_feature_columns": "Leave the call out: tf.feature_column checks the columns.",
    "create_feature_spec_for_parsing": f"Use {_SPEC} instead.",
    "crossed_column": _write("crossed_column(keys, hash_bucket_size)", _OF_IDS),
    "embedding_column": _write("embedding_column(categorical_column, dimension)"),
    "feature_column": "Use tf.feature_column instead.",
    "feature_column_ops": "Use tf.feature_column instead.",
    "infer_real_valued_columns": _write("numeric_column(key, shape)", "Write one for each key."),
    "input_from_feature_columns": f"Use {_LAYER} instead.",
    "joint_weighted_sum_from_feature_columns": f"Use {_LINEAR} instead.",
    "make_place_holder_tensors_for_base_features": "Use tf.io.parse_example with "
    f"{_SPEC}, or tf.estimator.export.build_raw_serving_input_receiver_fn.",
    "multi_class_target": _TARGETS.format("MultiClassHead"),
    "one_hot_column": _write("indicator_column(categorical_column)"),
    "parse_feature_columns_from_examples": f"Use tf.io.parse_example(serialized, {_SPEC}) instead.",
    "parse_feature_columns_from_sequence_examples": "Use tf.io.parse_single_sequence_example "
    "instead.",
    "real_valued_column": _write("numeric_column(key, shape=(dimension,))"),
    "regression_target": _TARGETS.format("RegressionHead"),
    "scattered_embedding_column": _write("embedding_column(categorical_column, dimension)"),
    "sequence_input_from_feature_columns": "Use tf.keras.experimental.SequenceFeatures with "
    "tf.feature_column.sequence_categorical_column_with_* instead.",
    "shared_embedding_columns": _write(
        "shared_embedding_columns(categorical_columns, dimension)", _SHARED
    ),
    "sparse_column_with_hash_bucket": _write(
        "categorical_column_with_hash_bucket(key, hash_bucket_size)", _OF_IDS
    ),
    "sparse_column_with_integerized_feature": _write(
        "categorical_column_with_identity(key, num_buckets)", _OF_IDS
    ),
    "sparse_column_with_keys": _write(
        "categorical_column_with_vocabulary_list(key, vocabulary_list)", _OF_IDS
    ),
    "sparse_column_with_vocabulary_file": _write(
        "categorical_column_with_vocabulary_file(key, vocabulary_file)", _OF_IDS
    ),
    "sparse_feature_cross": "Use tf.sparse.cross_hashed instead.",
    "transform_features": "Use tf.feature_column.input_layer or a layer of Keras instead.",
    "weighted_sparse_column": _write(
        "weighted_categorical_column(categorical_column, weight_feature_key)"
    ),
    "weighted_sum_from_feature_columns": f"Use {_LINEAR} instead.",
}
