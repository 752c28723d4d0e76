"""The parse dict of a spec: what `tf.io.parse_example` needs to read its records.

Lists of variable length come as `tf.RaggedTensor` for the kit's own reading, or as `SparseTensor`
for `tf.feature_column`. Never parses anything itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from feature_specs.schema import Feature, FeatureSpec


def feature_parse_dict(spec: FeatureSpec, *, sparse: bool = False) -> dict[str, Any]:
    """Parse entries for the features that some group reads; all that serving needs.

    Args:
      spec: the feature spec.
      sparse: read lists as `tf.io.VarLenFeature`, as `tf.feature_column` wants them, instead of
        as `tf.io.RaggedFeature`.

    Returns:
      `{feature name: tf.io.FixedLenFeature | tf.io.RaggedFeature | tf.io.VarLenFeature}`. A
      required feature has no default, so that parsing a record without it fails.
    """
    return {name: _entry(name, spec.features[name], sparse) for name in spec.used_features()}


def label_parse_dict(spec: FeatureSpec) -> dict[str, tf.io.FixedLenFeature]:
    """Parse entries for labels, their weights and true probabilities, for training and evaluation.

    Labels have no default: a record without its label must not train on an invented one.
    """
    entries: dict[str, tf.io.FixedLenFeature] = {}
    for name, label in spec.labels.items():
        entries[name] = tf.io.FixedLenFeature((), label.dtype)
        for feature in (label.weight, label.true_probability):
            if feature is not None and feature in spec.features:
                entries[feature] = _entry(feature, spec.features[feature], sparse=False)
    return entries


def make_parse_example_spec(spec: FeatureSpec) -> dict[str, Any]:
    """Features and labels for `tf.io.parse_example`, as canned estimators want them."""
    return {**feature_parse_dict(spec, sparse=True), **label_parse_dict(spec)}


def _entry(name: str, feature: Feature, sparse: bool) -> Any:
    dtype = tf.as_dtype(feature.dtype)
    if feature.variable:
        if sparse:
            return tf.io.VarLenFeature(dtype)
        return tf.io.RaggedFeature(dtype, value_key=name, row_splits_dtype=tf.int64)
    default: Any = feature.default
    if default is not None and feature.shape:
        shape: Any = feature.shape
        kind: Any = object if dtype == tf.string else dtype.as_numpy_dtype
        default = np.full(shape, default, kind)
    return tf.io.FixedLenFeature(feature.shape, dtype, default_value=default)
