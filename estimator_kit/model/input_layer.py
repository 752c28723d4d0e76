"""The fast reading's second half: the groups of a spec as tensors of a model.

`gathers` says how one column becomes dense, `group_checks` which groups a model can read. The
variables have the names and shapes that canned estimators give them, which lets checkpoints of the
two interchange.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.gathers import DENSE, STEPS, gather
from estimator_kit.model.group_checks import (
    check_dense_group,
    check_field_group,
    check_linear_group,
    check_numeric,
    check_ragged_group,
    check_sequence_group,
    columns_of,
)
from estimator_kit.model.places import input_places
from feature_specs.kinds.base import Dense
from feature_specs.reference.naming import canned_name
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features, weights_of

# Where canned estimators keep the variables of a DNN's and of a linear model's columns.
DNN_SCOPE = "input_from_feature_columns/input_layer"
LINEAR_SCOPE = "linear_model"
SEQUENCE_SCOPE = "sequence_input_layer"


def dense_input(spec: FeatureSpec, group: str, features: Features) -> tf.Tensor:
    """The columns of a group side by side: float32 [rows, width].

    Numbers as they are, bucketized columns one-hot, indicators as counts, embeddings gathered; in
    the order of their TensorFlow names, as in a canned DNN. Makes variables in the current scope.
    """
    check_dense_group(spec, group)
    return side_by_side(spec, group, dense_columns(spec, columns_of(spec, group), features))


def dense_columns(
    spec: FeatureSpec, names: Iterable[str], features: Features
) -> dict[str, tf.Tensor]:
    """Each column as float32 [rows, its width]; see `dense_input`.

    For a model that reads groups with columns in common: a column is gathered once, from one table.
    """
    order = sorted(set(names), key=lambda name: canned_name(spec, name))
    with tf.compat.v1.variable_scope(DNN_SCOPE):
        dense = {name: DENSE[_form(spec, name)](spec, name, features) for name in order}
    for name, tensor in dense.items():
        input_places.mark(name, tensor)
    return dense


def side_by_side(spec: FeatureSpec, group: str, dense: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The columns of a group out of some dense ones, in the order of `dense_input`."""
    names = sorted(columns_of(spec, group), key=lambda name: canned_name(spec, name))
    return tf.concat([dense[name] for name in names], axis=1)


def fields_of(spec: FeatureSpec, group: str, dense: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The embeddings of a group out of some dense columns: float32 [rows, fields, dimension].

    In the order in which the spec lists them.
    """
    check_field_group(spec, group)
    return tf.stack([dense[name] for name in columns_of(spec, group)], axis=1)


def sequence_input(
    spec: FeatureSpec, group: str, features: Features
) -> tuple[tf.Tensor, tf.Tensor]:
    """The columns of a sequence group, step by step.

    Returns:
      float32 [rows, steps, width], zeros behind the end of a row, the columns side by side in the
      order of their TensorFlow names; and the int64 [rows] number of steps of each row. As with
      `tf.keras.experimental.SequenceFeatures`, an id that is none is a step of zeros.
    """
    names = sorted(columns_of(spec, group), key=lambda name: canned_name(spec, name))
    columns, lengths = sequence_columns(spec, group, features)
    return tf.concat([columns[name] for name in names], axis=2), lengths


def sequence_columns(
    spec: FeatureSpec, group: str, features: Features
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Each column of a sequence group, float32 [rows, steps, its width], and the lengths."""
    check_sequence_group(spec, group)
    names = sorted(columns_of(spec, group), key=lambda name: canned_name(spec, name))
    ragged = [features[spec.category_of(name)[0]] for name in names]
    with tf.compat.v1.variable_scope(SEQUENCE_SCOPE):
        parts = {n: STEPS[_form(spec, n)](spec, n, ids) for n, ids in zip(names, ragged)}
    for name, tensor in parts.items():
        input_places.mark(name, tensor)
    return parts, ragged[0].row_lengths()


def ragged_input(spec: FeatureSpec, group: str, features: Features) -> dict[str, tf.RaggedTensor]:
    """The columns of a group of ragged ones, by name.

    Returns:
      float32 numbers or int64 ids, -1 where there is none: [rows, None] of a list,
      [rows, None, None] of a list of lists.
    """
    check_ragged_group(spec, group)
    names = columns_of(spec, group)
    return {name: features[spec.category_of(name)[0]] for name in names}


def numeric_input(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    """A numeric column in the shape of its numbers: float32 [rows, *shape].

    Of one number [rows, 1]; of an image [rows, height, width, channels].
    """
    check_numeric(spec, name)
    feature = next(spec.features_of(name))
    shape = spec.features[feature].number_shape or (1,)
    return tf.reshape(features[name], [-1, *shape])


def width_of(spec: FeatureSpec, name: str) -> int:
    """The width of a dense column, or of a step of a sequence column."""
    return spec.columns[name].width(spec)


def _form(spec: FeatureSpec, name: str) -> Dense:
    column = spec.columns[name]
    if column.dense is None:
        raise ConfigError(
            f"column {name!r} is {column.kind}, which has no dense form; read an embedding or "
            "indicator column of it instead"
        )
    return column.dense


def linear_logits(spec: FeatureSpec, group: str, features: Features, units: int) -> tf.Tensor:
    """Logits of a linear model over a group: float32 [rows, units]. Lists of ids add up."""
    check_linear_group(spec, group)
    terms = []
    with tf.compat.v1.variable_scope(LINEAR_SCOPE):
        for name in columns_of(spec, group):
            values = features[name]
            numeric = spec.columns[name].is_numbers(spec)
            size = values.shape[1] if numeric else spec.size_of(name)
            with tf.compat.v1.variable_scope(canned_name(spec, name)):
                table = tf.compat.v1.get_variable(
                    "weights", [size, units], initializer=tf.compat.v1.zeros_initializer()
                )
            if numeric:
                terms.append(values @ table)
            else:
                terms.append(gather(table, values, "sum", weights=features.get(weights_of(name))))
        bias = tf.compat.v1.get_variable(
            "bias_weights", [units], initializer=tf.compat.v1.zeros_initializer()
        )
    return tf.add_n(terms) + bias
