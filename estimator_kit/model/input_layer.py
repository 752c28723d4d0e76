"""The second half of the kit's reading of a spec: the groups as tensors of a model.

`gathers` makes a single column dense, and `group_checks` checks whether a model can read a group.
The variables have the names and shapes of canned estimators, so that the kit and canned estimators
can read each other's checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Union

import tensorflow as tf

from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import ConfigError
from estimator_kit.model import computing, gathers
from estimator_kit.model.gathers import DENSE, STEPS
from estimator_kit.model.group_checks import (
    check_clash,
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
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features, weights_of

# The scopes in which canned estimators keep the variables of columns.
DNN_SCOPE = "input_from_feature_columns/input_layer"
LINEAR_SCOPE = "linear_model"
SEQUENCE_SCOPE = "sequence_input_layer"


def dense_input(spec: FeatureSpec, group: str, features: Features) -> tf.Tensor:
    """The columns of a group side by side: float32 [rows, width].

    Numbers are unchanged, bucketized columns are one-hot, indicators are counts, and embeddings are
    vectors. The order is the order of the TensorFlow names, as in a canned DNN. Creates variables
    in the current scope.
    """
    check_dense_group(spec, group)
    return side_by_side(spec, group, dense_columns(spec, columns_of(spec, group), features))


def dense_columns(
    spec: FeatureSpec, names: Iterable[str], features: Features
) -> dict[str, tf.Tensor]:
    """Each column as float32 [rows, its width]. See `dense_input`.

    Use it for a model whose groups share columns: each column is gathered once, from one table.
    """
    order = sorted(set(names), key=lambda name: (spec.canned_name(name), name))
    check_clash(spec, order)
    with computing.outside(), tf.compat.v1.variable_scope(DNN_SCOPE):
        tensors = {name: _dense_column(spec, name, features) for name in order}
        dense = gathers.completed(tensors)
    for name, tensor in dense.items():
        input_places.mark(name, tensor)
    return dense


def side_by_side(spec: FeatureSpec, group: str, dense: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Concatenates the dense columns of a group, in the order of `dense_input`."""
    names = sorted(columns_of(spec, group), key=lambda name: spec.canned_name(name))
    return tf.concat([dense[name] for name in names], axis=1)


def fields_of(spec: FeatureSpec, group: str, dense: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Stacks the dense embeddings of a group: float32 [rows, fields, dimension].

    The order is the order of the spec.
    """
    check_field_group(spec, group)
    return tf.stack([dense[name] for name in columns_of(spec, group)], axis=1)


def sequence_input(
    spec: FeatureSpec, group: str, features: Features
) -> tuple[tf.Tensor, tf.Tensor]:
    """The columns of a sequence group, step by step.

    Returns:
      The steps, float32 [rows, steps, width], with the columns in the order of their TensorFlow
      names and zeros as padding; and the number of steps of each row, int64 [rows]. As with
      `tf.keras.experimental.SequenceFeatures`, a missing id is a step of zeros.
    """
    names = sorted(columns_of(spec, group), key=lambda name: spec.canned_name(name))
    columns, lengths = sequence_columns(spec, group, features)
    return tf.concat([columns[name] for name in names], axis=2), lengths


def sequence_columns(
    spec: FeatureSpec, group: str, features: Features
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Each column of a sequence group, float32 [rows, steps, its width], and the lengths."""
    check_sequence_group(spec, group)
    names = sorted(columns_of(spec, group), key=lambda name: spec.canned_name(name))
    ragged = [features[spec.category_of(name)[0]] for name in names]
    with computing.outside(), tf.compat.v1.variable_scope(SEQUENCE_SCOPE):
        parts = {}
        for name, ids in zip(names, ragged):
            with tf.name_scope(name):
                parts[name] = STEPS[_form(spec, name)](spec, name, ids)
    for name, tensor in parts.items():
        input_places.mark(name, tensor)
    return parts, ragged[0].row_lengths()


def at_least_one_step(steps: tf.Tensor) -> tf.Tensor:
    """The steps. If no row of the batch has a step, one padded step is added."""
    missing = tf.maximum(1 - tf.shape(steps)[1], 0)
    padded = tf.pad(steps, [[0, 0], [0, missing], [0, 0]])
    padded.set_shape([None, None, steps.shape[2]])
    return padded


def ragged_input(spec: FeatureSpec, group: str, features: Features) -> dict[str, tf.RaggedTensor]:
    """The columns of a group of ragged columns, by name.

    Returns:
      float32 numbers, or int64 ids with -1 for a missing id. A list has the shape [rows, None], and
      a list of lists has [rows, None, None].
    """
    check_ragged_group(spec, group)
    names = columns_of(spec, group)
    return {name: features[spec.category_of(name)[0]] for name in names}


def numeric_input(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    """A numeric column in the shape of its numbers: float32 [rows, *shape].

    One number has the shape [rows, 1], and an image has [rows, height, width, channels].
    """
    check_numeric(spec, name)
    feature = next(spec.features_of(name))
    shape = spec.features[feature].number_shape or (1,)
    return tf.reshape(features[name], [-1, *shape])


def width_of(spec: FeatureSpec, name: str) -> int:
    """The width of a dense column, or of a step of a sequence column."""
    return spec.columns[name].width(spec)


def _dense_column(
    spec: FeatureSpec, name: str, features: Features
) -> Union[tf.Tensor, gathers.Lookup, gathers.OneHot]:
    """A dense column, or what `gathers.completed` makes it from. Makes its variable."""
    form = _form(spec, name)
    later = gathers.later(spec, name, features)
    if later is not None:
        return later
    with tf.name_scope(name):
        return DENSE[form](spec, name, features)


def _form(spec: FeatureSpec, name: str) -> Dense:
    column = spec.columns[name]
    if column.dense is None:
        raise ConfigError(
            f"column {name!r} is {column.kind}, which has no dense form. Read an embedding or "
            "indicator column of it instead."
        )
    return column.dense


def linear_logits(spec: FeatureSpec, group: str, features: Features, units: int) -> tf.Tensor:
    """The logits of a linear model over a group: float32 [rows, units]. Ids of a list add up."""
    check_linear_group(spec, group)
    terms: dict[str, Union[tf.Tensor, gathers.Lookup]] = {}
    tables = {}
    with computing.outside(), tf.compat.v1.variable_scope(LINEAR_SCOPE):
        for name in columns_of(spec, group):
            values = features[name]
            numeric = spec.columns[name].is_numbers(spec)
            size = values.shape[1] if numeric else spec.size_of(name)
            what = f"the weights of the column {name!r}"
            with tf.compat.v1.variable_scope(spec.canned_name(name)), gathers.made_once(what):
                table = tables[name] = tf.compat.v1.get_variable(
                    "weights", [size, units], initializer=tf.compat.v1.zeros_initializer()
                )
            if not numeric:
                growing_ids.add(spec, name, table)
            if numeric:
                terms[name] = values @ table
            elif isinstance(values, tf.RaggedTensor):
                weights = features.get(weights_of(name))
                terms[name] = gathers.gather(table, values, "sum", weights=weights)
            else:
                terms[name] = gathers.Lookup(table, values)
        with gathers.made_once("the bias of a linear model"):
            bias = tf.compat.v1.get_variable(
                "bias_weights", [units], initializer=tf.compat.v1.zeros_initializer()
            )
        products = gathers.completed(terms)
    for name, table in tables.items():
        input_places.mark_same(products[name], table)
    return tf.nn.bias_add(tf.add_n(list(products.values())), bias)
