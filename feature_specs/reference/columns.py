"""The reference reading of a spec: parse dicts, and real `tf.feature_column` objects.

Any canned estimator can use them. Tests compare the kit's own, faster reading with them:

    columns = feature_columns(spec, "wide")
    tf.estimator.LinearClassifier(columns).train(...)

Parse records with `make_parse_example_spec` or `make_parse_sequence_example_spec`.
Then decode features with `decode` by `decoding.decode_features`. Each kind (`feature_specs.kinds`)
makes its own `tf.feature_column` with the TensorFlow module that it gets from here. Ragged columns
and dynamic embeddings have no feature column. The kit's own training uses only the parse dicts.

`tf.io.parse_example` takes one dict. `tf.io.parse_sequence_example` takes one for the context and
one for the feature lists. Lists become a `tf.RaggedTensor` for the kit's own reading, or a
`SparseTensor` for `tf.feature_column`. This module never parses records itself.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

import numpy as np
import tensorflow as tf

from feature_specs.embeddings import initial_values
from feature_specs.embeddings.initial_values import initializer
from feature_specs.feature import Feature
from feature_specs.kinds import Embedding
from feature_specs.kinds.normalizers import Normalizer
from feature_specs.reference.ops import integer_buckets, normalizer_fn
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("feature_specs")


def feature_columns(spec: FeatureSpec, group: str) -> list[Any]:
    """One `tf.feature_column` for each column of a group, in its order.

    TensorFlow's `tf.estimator.DNN*` and `DNNLinearCombined*` never train a shared table: they train
    the variables of their Keras model, which does not have it. So a group with `shared` is logged
    as a warning.

    Raises:
      KeyError: the spec has no such group.
    """
    if group not in spec.groups:
        raise KeyError(f"unknown group {group!r}. Use one of: {', '.join(spec.groups)}.")
    shared = _shared(spec, group)
    return [shared.get(name) or feature_column(spec, name) for name in spec.groups[group]]


def feature_column(spec: FeatureSpec, name: str) -> Any:
    """The `tf.feature_column` of one column of the spec.

    Raises:
      ValueError: the column is ragged, a dynamic embedding or has `l2`, which TensorFlow does not
        have.
    """
    return _Reference(spec).column(name)


@dataclasses.dataclass(frozen=True)
class _Reference:
    """What columns need to make their feature columns. A `kinds.base.Reference`."""

    spec: FeatureSpec
    tf: Any = tf

    def column(self, name: str) -> Any:
        return self.spec.columns[name].feature_column(self, name)

    def normalizer_fn(self, steps: tuple[Normalizer, ...]) -> Callable[[tf.Tensor], tf.Tensor]:
        return normalizer_fn(steps)

    def integer_buckets(self, values: tf.Tensor, limits: Sequence[Union[int, float]]) -> tf.Tensor:
        return integer_buckets(values, limits)

    def table(self, name: str) -> dict[str, Any]:
        """The arguments that all embedding columns of TensorFlow share."""
        column = self.spec.of_kind(Embedding)[name]
        if column.l2 is not None:
            raise ValueError(
                f"{self.spec.source}: column {name!r} has l2, and tf.feature_column has no such "
                "penalty. Train it with a ModelFn, or remove l2."
            )
        start = initializer(column)
        if column.pretrained is not None:
            start = initial_values.table_initializer(self.spec, name)
        return {
            "combiner": column.combiner,
            "initializer": start,
            "max_norm": column.max_norm,
            "trainable": column.trainable,
        }


def _shared(spec: FeatureSpec, group: str) -> dict[str, Any]:
    """The columns of a group that share a table. TensorFlow makes these in one call."""
    reference = _Reference(spec)
    by_table: dict[str, list[str]] = {}
    for name in spec.groups[group]:
        table = spec.columns[name].shared_table
        if table is not None:
            by_table.setdefault(table, []).append(name)
    result: dict[str, Any] = {}
    for table, names in by_table.items():
        if reference.table(names[0])["trainable"]:
            _log.warning(
                "%s: group %r: the columns %s share the table %r, which tf.estimator.DNN* and "
                "tf.estimator.DNNLinearCombined* never train. It keeps its initial values. Use "
                "tf.compat.v1.estimator.DNN* or DNNLinearCombined*, a model of the kit, or your "
                "own model_fn, which train it; or give each column its own table.",
                spec.source,
                group,
                ", ".join(names),
                table,
            )
        if len({spec.of_kind(Embedding)[name].combiner for name in names}) > 1:
            raise ValueError(
                f"{spec.source}: group {group!r}: the columns {', '.join(names)} use the table "
                f"{table!r} with several combiners, which tf.feature_column cannot. Train them "
                "with a ModelFn, or make the combiners equal."
            )
        categories = [reference.column(spec.category_of(name)[0]) for name in names]
        with tf.Graph().as_default():  # TensorFlow does not make them in eager mode.
            columns = tf.feature_column.shared_embeddings(
                categories,
                spec.columns[names[0]].width(spec),
                shared_embedding_collection_name=table,
                **reference.table(names[0]),
            )
        result.update(zip(names, columns))
    return result


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
