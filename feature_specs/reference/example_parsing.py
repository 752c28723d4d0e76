"""The parse dicts of a spec, with which TensorFlow parses records.

`tf.io.parse_example` takes one dict. `tf.io.parse_sequence_example` takes one for the context and
one for the feature lists. Lists become a `tf.RaggedTensor` for the kit's own reading, or a
`SparseTensor` for `tf.feature_column`. This module never parses records itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from feature_specs.feature import Feature
from feature_specs.spec import FeatureSpec


def feature_parse_dict(spec: FeatureSpec, *, sparse: bool = False) -> dict[str, Any]:
    """Parse entries for the features that groups read. Serving needs only these.

    They belong to an Example, or to the context of a SequenceExample.

    Args:
      spec: the feature spec.
      sparse: whether to read lists as `tf.io.VarLenFeature`, which `tf.feature_column` expects,
        instead of `tf.io.RaggedFeature`.

    Returns:
      `{feature name: tf.io.FixedLenFeature | tf.io.RaggedFeature | tf.io.VarLenFeature}`. A
      required feature has no default, so that parsing a record without it fails. A feature with
      `decode` is a string, for `decoding.decode_features`. The lengths of lists of lists are a
      separate list.
    """
    return {
        name: _entry(name, spec.features[name], sparse)
        for name in spec.used_features()
        if not spec.features[name].feature_list
    }


def parse_entries(spec: FeatureSpec, names: Iterable[str]) -> dict[str, Any]:
    """The parse entries of some features and labels by name, as in the other dicts."""
    labels = label_parse_dict(spec)
    return {
        name: labels[name] if name in spec.labels else _entry(name, spec.features[name], False)
        for name in names
    }


def feature_list_parse_dict(spec: FeatureSpec, *, sparse: bool = False) -> dict[str, Any]:
    """Parse entries for the feature lists of SequenceExamples that groups read.

    Returns:
      With `sparse`, a `tf.io.VarLenFeature` for each list. Otherwise, a list that may be absent is
      a `tf.io.RaggedFeature`. It returns [rows, steps, values], which shows steps with no value or
      with several values; a VarLenFeature does not. A required list is a
      `tf.io.FixedLenSequenceFeature`, the only entry that fails if the list is absent. It also
      rejects such steps.
    """
    lists = [name for name in spec.used_features() if spec.features[name].feature_list]
    return {name: _list_entry(name, spec.features[name], sparse) for name in lists}


def label_parse_dict(spec: FeatureSpec, *, sparse: bool = False) -> dict[str, Any]:
    """Parse entries for labels and their weights, groups and parts, for training and evaluation.

    Labels have no default, so that training never uses an invented label. A label that may be
    missing and a list of classes are read as lists (with `sparse`, as a `tf.io.VarLenFeature`), so
    that a missing value is visible. In a SequenceExample the labels are in the context.
    """
    entries: dict[str, Any] = {}
    for name, label in spec.labels.items():
        if label.variable or label.missing is not None:
            entries[name] = _entry(name, Feature(dtype=label.dtype, shape="variable"), sparse)
        else:
            entries[name] = tf.io.FixedLenFeature(label.shape, label.dtype)
        entry = spec.objectives[spec.objective_of(name)]
        parts = (part.name for part in entry.label_parts)
        for feature in (label.weight, label.true_probability, entry.group, *parts):
            if feature is not None and feature in spec.features:
                entries[feature] = _entry(feature, spec.features[feature], sparse=False)
    return entries


def make_parse_example_spec(spec: FeatureSpec) -> dict[str, Any]:
    """Features and labels for `tf.io.parse_example`, as canned estimators expect them.

    Raises:
      ValueError: the records of the spec are SequenceExamples.
    """
    if spec.sequence_examples:
        raise ValueError(
            f"{spec.source}: the records are SequenceExamples (feature_list: true in "
            f"{', '.join(spec.feature_lists)}), which tf.io.parse_example cannot read. Use "
            "make_parse_sequence_example_spec and tf.io.parse_sequence_example."
        )
    return {**feature_parse_dict(spec, sparse=True), **label_parse_dict(spec, sparse=True)}


def make_parse_sequence_example_spec(spec: FeatureSpec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Context features with labels, and sequence features, for `tf.io.parse_sequence_example`.

        context, sequence = make_parse_sequence_example_spec(spec)
        context, steps, lengths = tf.io.parse_sequence_example(serialized, context, sequence)

    A feature list becomes a SparseTensor [rows, steps, 1]. `sequence_*` columns take it unchanged.
    Other columns of lists expect [rows, steps]: `tf.sparse.reshape(x, x.dense_shape[:2])`. Unlike
    the kit's own reading, this parser does not check that each step has one value.

    Raises:
      ValueError: the records of the spec are Examples.
    """
    if not spec.sequence_examples:
        raise ValueError(
            f"{spec.source}: the records are Examples (no feature has feature_list: true). Use "
            "make_parse_example_spec and tf.io.parse_example."
        )
    context = {**feature_parse_dict(spec, sparse=True), **label_parse_dict(spec, sparse=True)}
    return context, feature_list_parse_dict(spec, sparse=True)


def _entry(name: str, feature: Feature, sparse: bool) -> Any:
    dtype = tf.as_dtype(feature.dtype)
    if feature.variable:
        if sparse:
            return tf.io.VarLenFeature(dtype)
        return tf.io.RaggedFeature(dtype, value_key=name, row_splits_dtype=tf.int64)
    default: Any = feature.default if feature.decode is None or feature.default is None else ""
    if default is not None and feature.shape:
        shape: Any = feature.shape
        kind: Any = object if dtype == tf.string else dtype.as_numpy_dtype
        default = np.full(shape, default, kind)
    return tf.io.FixedLenFeature(feature.shape, dtype, default_value=default)


def _list_entry(name: str, feature: Feature, sparse: bool) -> Any:
    dtype = tf.as_dtype(feature.dtype)
    if sparse:
        return tf.io.VarLenFeature(dtype)
    if feature.is_required:
        return tf.io.FixedLenSequenceFeature((), dtype)
    return tf.io.RaggedFeature(dtype, value_key=name, row_splits_dtype=tf.int64)
