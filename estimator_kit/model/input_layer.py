"""The fast reading's second half: gathers in the model, from ids and numbers to dense tensors.

`Transform` has already turned strings into ids, so that a single-valued column costs one gather and
no SparseTensor. Variables have the names and shapes that canned estimators give them, which lets
checkpoints of the two interchange. A row without ids gets zeros, as with `tf.feature_column`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Optional, Union

import tensorflow as tf

from estimator_kit.embeddings import dynamic_tables, partitions
from estimator_kit.errors import ConfigError
from estimator_kit.model.places import input_places
from feature_specs.embeddings.initializers import initializer
from feature_specs.kinds.column_kinds import (
    DynamicEmbedding,
    Embedding,
    Indicator,
    Numeric,
    Ragged,
    SequenceNumeric,
)
from feature_specs.reference.naming import canned_name
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features, weights_of

Ids = Union[tf.Tensor, tf.RaggedTensor]

# Where canned estimators keep the variables of a DNN's and of a linear model's columns.
DNN_SCOPE = "input_from_feature_columns/input_layer"
LINEAR_SCOPE = "linear_model"
SEQUENCE_SCOPE = "sequence_input_layer"

# The names of the variables of columns that start from pretrained vectors, graph by graph. They are
# in no collection of the graph: TensorFlow would write it into each MetaGraph. Names, as a variable
# would hold its graph for good.
_PRETRAINED: weakref.WeakKeyDictionary[tf.Graph, dict[str, str]] = weakref.WeakKeyDictionary()


def check_dense_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group that a DNN cannot take, before any graph is built."""
    for name in columns_of(spec, group):
        column = spec.columns[name]
        _refuse_ragged(spec, group, name)
        if spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value a step; this model reads one a "
                "record, and a model of your own reads steps with self.sequence_input"
            )
        if column.categorical and column.kind != "bucketized":
            raise ConfigError(
                f"group {group!r}: column {name!r} is {column.kind}, which has no dense form; "
                "put an embedding or indicator column of it into the group instead"
            )


def check_linear_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group that a linear model cannot take."""
    for name in columns_of(spec, group):
        column = spec.columns[name]
        _refuse_ragged(spec, group, name)
        if spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value a step, which a linear model "
                "does not read; remove sequence"
            )
        if isinstance(column, DynamicEmbedding):
            raise ConfigError(
                f"group {group!r}: column {name!r} is a dynamic_embedding, which a linear model "
                "does not read; put a hash_bucket column of the feature into the group instead"
            )
        if isinstance(column, (Embedding, Indicator)):
            raise ConfigError(
                f"group {group!r}: column {name!r} is {column.kind}, which a linear model does "
                f"not need; put {column.source!r} itself into the group instead"
            )


def _refuse_ragged(spec: FeatureSpec, group: str, name: str) -> None:
    """A model that knows no lists says so, and what to put in the place of one."""
    column = spec.columns[name]
    if not isinstance(column, Ragged):
        return
    ids = spec.ragged_ids(column)
    remedy = "numbers of a fixed shape or a bucketized column of them"
    if ids is not None and not spec.features[next(spec.features_of(ids))].nested:
        remedy = f"an embedding of {ids!r} with a combiner, or an indicator of it,"
    raise ConfigError(
        f"group {group!r}: column {name!r} is ragged, which only a model of your own reads, with "
        f"self.ragged_input; put {remedy} into the group instead"
    )


def columns_of(spec: FeatureSpec, group: str) -> tuple[str, ...]:
    """The names of a group's columns."""
    if group not in spec.groups:
        raise ConfigError(
            f"the model needs a group {group!r}, and {spec.source} has {', '.join(spec.groups)}"
        )
    return spec.groups[group]


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
        dense = {name: _dense(spec, name, features) for name in order}
    for name, tensor in dense.items():
        input_places.mark(name, tensor)
    return dense


def side_by_side(spec: FeatureSpec, group: str, dense: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The columns of a group out of some dense ones, in the order of `dense_input`."""
    names = sorted(columns_of(spec, group), key=lambda name: canned_name(spec, name))
    return tf.concat([dense[name] for name in names], axis=1)


def check_field_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group that is not made of embeddings of one dimension, one a record."""
    check_dense_group(spec, group)
    names = columns_of(spec, group)
    first = spec.columns[names[0]]
    for name in names:
        column = spec.columns[name]
        if not isinstance(column, (DynamicEmbedding, Embedding)):
            raise ConfigError(
                f"group {group!r}: column {name!r} is {column.kind}, and this model reads fields, "
                "which are embeddings; put an embedding of it into the group instead"
                + (" (of a bucketized column)" if isinstance(column, Numeric) else "")
            )
        assert isinstance(first, (DynamicEmbedding, Embedding))
        if column.dimension != first.dimension:
            raise ConfigError(
                f"group {group!r}: column {name!r} has the dimension {column.dimension}, and "
                f"{names[0]!r} has {first.dimension}; this model compares fields, so make the "
                "dimensions equal"
            )


def fields_of(spec: FeatureSpec, group: str, dense: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The embeddings of a group out of some dense columns: float32 [rows, fields, dimension].

    In the order in which the spec lists them.
    """
    check_field_group(spec, group)
    return tf.stack([dense[name] for name in columns_of(spec, group)], axis=1)


def check_sequence_group(spec: FeatureSpec, group: str) -> None:
    """Refuses a group without steps, before any graph is built."""
    for name in columns_of(spec, group):
        _refuse_ragged(spec, group, name)
        if not spec.is_sequence(name):
            raise ConfigError(
                f"group {group!r}: column {name!r} has one value a record, expected one a step: "
                "a sequence_numeric column, or one over a column with sequence: true"
            )


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
        parts = {name: _steps(spec, name, steps) for name, steps in zip(names, ragged)}
    for name, tensor in parts.items():
        input_places.mark(name, tensor)
    return parts, ragged[0].row_lengths()


def ragged_input(
    spec: FeatureSpec, group: str, features: Features
) -> dict[str, tf.RaggedTensor]:
    """The columns of a group of ragged ones, by name.

    Returns:
      float32 numbers or int64 ids, -1 where there is none: [rows, None] of a list,
      [rows, None, None] of a list of lists.
    """
    names = columns_of(spec, group)
    for name in names:
        if not isinstance(spec.columns[name], Ragged):
            raise ConfigError(
                f"group {group!r}: column {name!r} is {spec.columns[name].kind}, expected a ragged "
                "one"
            )
    return {name: features[spec.category_of(name)[0]] for name in names}


def numeric_input(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    """A numeric column in the shape of its numbers: float32 [rows, *shape].

    Of one number [rows, 1]; of an image [rows, height, width, channels].
    """
    column = spec.columns.get(name)
    if not isinstance(column, Numeric):
        found = "there is none of that name" if column is None else f"it is {column.kind}"
        numeric = [n for n in spec.used_columns() if isinstance(spec.columns[n], Numeric)]
        raise ConfigError(
            f"got the column {name!r}, expected a numeric one, and {found}; {spec.source} has "
            f"{', '.join(numeric) or 'no numeric column in a group'}"
        )
    shape = spec.features[column.source].number_shape or (1,)
    return tf.reshape(features[name], [-1, *shape])


def width_of(spec: FeatureSpec, name: str) -> int:
    """The width of a dense column, or of a step of a sequence column."""
    column = spec.columns[name]
    if isinstance(column, (DynamicEmbedding, Embedding)):
        return column.dimension
    if isinstance(column, Numeric):
        return spec.features[column.source].width
    if isinstance(column, SequenceNumeric):
        return 1
    return spec.size_of(spec.category_of(name)[0])


def _steps(spec: FeatureSpec, name: str, values: tf.RaggedTensor) -> tf.Tensor:
    """One column of a sequence group: float32 [rows, steps, width]."""
    column = spec.columns[name]
    if isinstance(column, SequenceNumeric):
        return values.to_tensor()[:, :, tf.newaxis]
    ids = values.to_tensor(default_value=-1)
    if isinstance(column, Indicator):
        return tf.one_hot(ids, spec.size_of(column.source))
    assert isinstance(column, Embedding), column
    found = tf.nn.embedding_lookup(
        embedding_table(spec, name), tf.maximum(ids, 0), max_norm=column.max_norm
    )
    return tf.where(ids[:, :, tf.newaxis] >= 0, found, tf.zeros_like(found))


def _dense(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    column = spec.columns[name]
    if isinstance(column, Numeric):
        return features[name]
    if isinstance(column, DynamicEmbedding):
        return _dynamic(spec, name, features[name], column.combiner)
    category, _ = spec.category_of(name)
    ids, weights = features[category], features.get(weights_of(category))
    if not isinstance(column, Embedding):
        return _counts(ids, spec.size_of(category), weights)
    table = embedding_table(spec, name)
    return gather(table, ids, column.combiner, weights=weights, max_norm=column.max_norm)


def _dynamic(spec: FeatureSpec, name: str, ids: Ids, combiner: str) -> tf.Tensor:
    if not isinstance(ids, tf.RaggedTensor):
        return gather(*dynamic_tables.rows(spec, name, ids))
    vectors, places = dynamic_tables.rows(spec, name, ids.flat_values)
    return gather(vectors, ids.with_flat_values(places), combiner)


def embedding_table(spec: FeatureSpec, name: str) -> tf.Tensor:
    """The variable of an embedding column, [ids, dimension], in the current scope.

    A shared table is at the root, under its own name, as with `tf.feature_column`.
    """
    column = spec.columns[name]
    assert isinstance(column, Embedding)
    v1 = tf.compat.v1
    if column.shared is None:
        scope, variable = v1.variable_scope(canned_name(spec, name)), "embedding_weights"
    else:
        root = v1.VariableScope(v1.AUTO_REUSE, name="")
        scope, variable = v1.variable_scope(root, auxiliary_name_scope=False), column.shared
    shape = [spec.size_of(column.source), column.dimension]
    with scope:
        table = v1.get_variable(
            variable,
            shape,
            initializer=initializer(column),
            trainable=column.trainable,
            partitioner=partitions.partitioner(*shape) if column.pretrained is None else None,
        )
    if column.pretrained is not None:
        _PRETRAINED.setdefault(table.graph, {})[name] = table.op.name
    return table


def pretrained_variables(graph: tf.Graph) -> dict[str, tf.Variable]:
    """The tables of a graph that start from pretrained vectors, by column."""
    names = _PRETRAINED.get(graph, {})
    found = {variable.op.name: variable for variable in graph.get_collection("variables")}
    return {column: found[name] for column, name in names.items()}


def linear_logits(spec: FeatureSpec, group: str, features: Features, units: int) -> tf.Tensor:
    """Logits of a linear model over a group: float32 [rows, units]. Lists of ids add up."""
    check_linear_group(spec, group)
    terms = []
    with tf.compat.v1.variable_scope(LINEAR_SCOPE):
        for name in columns_of(spec, group):
            values = features[name]
            numeric = isinstance(spec.columns[name], Numeric)
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


def gather(
    table: tf.Tensor,
    ids: Ids,
    combiner: str = "sum",
    *,
    weights: Optional[tf.RaggedTensor] = None,
    max_norm: Optional[float] = None,
) -> tf.Tensor:
    """Rows of a table by id, float32 [rows, width].

    Args:
      table: [size, width].
      ids: int64 [rows], or a RaggedTensor [rows, None]; -1 is no id and adds nothing.
      combiner: what becomes of several vectors e of weights w (1 by default): `sum` is sum(w e),
        `mean` sum(w e) / sum(w), `sqrtn` sum(w e) / sqrt(sum(w^2)). Without any it is zeros. As in
        `tf.nn.safe_embedding_lookup_sparse`, mean and sqrtn leave out weights of 0 or less.
      weights: float32 [rows, None], beside ragged ids.
      max_norm: longer vectors are scaled down to this length.

    With the ids 0 and 2 of weights 3 and 1, `mean` is (3 e0 + e2) / 4.
    """
    if not isinstance(ids, tf.RaggedTensor):
        found = tf.nn.embedding_lookup(table, tf.maximum(ids, 0), max_norm=max_norm)
        # That of v1 takes a condition for each row, and its gradient no operations on shapes.
        return tf.compat.v1.where(ids >= 0, found, tf.zeros_like(found))
    rows = ids.nrows()
    there = ids.flat_values >= 0
    if weights is not None and combiner != "sum":
        there &= weights.flat_values > 0
    row_of = tf.boolean_mask(ids.value_rowids(), there)
    ids_there = tf.boolean_mask(ids.flat_values, there)
    found = tf.nn.embedding_lookup(table, ids_there, max_norm=max_norm)
    weight = tf.ones_like(row_of, tf.float32)
    if weights is not None:
        weight = tf.boolean_mask(weights.flat_values, there)
        found *= weight[:, tf.newaxis]
    total = tf.math.unsorted_segment_sum(found, row_of, rows)
    total.set_shape([None, table.shape[1]])
    if combiner == "sum":
        return total
    if combiner == "mean":
        divisor = tf.math.unsorted_segment_sum(weight, row_of, rows)
    else:
        divisor = tf.sqrt(tf.math.unsorted_segment_sum(weight**2, row_of, rows))
    return tf.math.divide_no_nan(total, divisor[:, tf.newaxis])


def _counts(ids: Ids, size: int, weights: Optional[tf.RaggedTensor] = None) -> tf.Tensor:
    """How often each id occurs in a row, or the sum of its weights: float32 [rows, size]."""
    if not isinstance(ids, tf.RaggedTensor):
        return tf.one_hot(ids, size)
    # One addition an id, instead of a one-hot row for each.
    there = ids.flat_values >= 0
    row_of = tf.boolean_mask(ids.value_rowids(), there)
    cell = row_of * size + tf.boolean_mask(ids.flat_values, there)
    weight = tf.ones_like(cell, tf.float32)
    if weights is not None:
        weight = tf.boolean_mask(weights.flat_values, there)
    counts = tf.math.unsorted_segment_sum(weight, cell, ids.nrows() * size)
    return tf.reshape(counts, [-1, size])
