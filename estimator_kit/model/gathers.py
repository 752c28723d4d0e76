"""Makes columns dense: tables of functions by the form that a kind names (`Column.dense`).

    DENSE["counts"](spec, name, features)    # float32 [rows, width] of a column of a record
    STEPS["counts"](spec, name, ragged)      # float32 [rows, steps, width] of a sequence column

`Transform` has already converted strings to ids. A column with one value per record therefore needs
one gather and no SparseTensor. Embedding variables are created in the current scope, with the names
and shapes of canned estimators. A row without ids gets zeros, as with `tf.feature_column`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Optional, Union

import tensorflow as tf

from estimator_kit.embeddings import dynamic_tables, partitions
from feature_specs.embeddings.initializers import initializer
from feature_specs.kinds import Embedding
from feature_specs.kinds.base import Dense
from feature_specs.reference.naming import canned_name
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features, weights_of

Ids = Union[tf.Tensor, tf.RaggedTensor]

# For each graph, the names of variables that start from pretrained vectors, by column. They are not
# in a collection of the graph, because TensorFlow would write it into each MetaGraph. They are
# names, because a variable would keep its graph alive.
_PRETRAINED: weakref.WeakKeyDictionary[tf.Graph, dict[str, str]] = weakref.WeakKeyDictionary()


def _numbers(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    return features[name]


def _counts(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    category, _ = spec.category_of(name)
    weights = features.get(weights_of(category))
    return counts(features[category], spec.size_of(category), weights)


def _embedding(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    column, (category, _) = spec.of_kind(Embedding)[name], spec.category_of(name)
    weights = features.get(weights_of(category))
    table = embedding_table(spec, name)
    return gather(
        table, features[category], column.combiner, weights=weights, max_norm=column.max_norm
    )


def _dynamic_embedding(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    ids = features[name]
    if not isinstance(ids, tf.RaggedTensor):
        return gather(*dynamic_tables.rows(spec, name, ids))
    vectors, places = dynamic_tables.rows(spec, name, ids.flat_values)
    combiner = dynamic_tables.column_of(spec, name).combiner
    return gather(vectors, ids.with_flat_values(places), combiner)


def _steps_of_numbers(spec: FeatureSpec, name: str, values: tf.RaggedTensor) -> tf.Tensor:
    return values.to_tensor()[:, :, tf.newaxis]


def _steps_of_ids(spec: FeatureSpec, name: str, values: tf.RaggedTensor) -> tf.Tensor:
    ids = values.to_tensor(default_value=-1)
    return tf.one_hot(ids, spec.size_of(spec.category_of(name)[0]))


def _steps_of_vectors(spec: FeatureSpec, name: str, values: tf.RaggedTensor) -> tf.Tensor:
    ids = values.to_tensor(default_value=-1)
    max_norm = spec.of_kind(Embedding)[name].max_norm
    found = tf.nn.embedding_lookup(
        embedding_table(spec, name), tf.maximum(ids, 0), max_norm=max_norm
    )
    return tf.where(ids[:, :, tf.newaxis] >= 0, found, tf.zeros_like(found))


DENSE: dict[Dense, Callable[[FeatureSpec, str, Features], tf.Tensor]] = {
    "numbers": _numbers,
    "counts": _counts,
    "embedding": _embedding,
    "dynamic_embedding": _dynamic_embedding,
}
# A sequence column cannot be a dynamic embedding.
STEPS: dict[Dense, Callable[[FeatureSpec, str, tf.RaggedTensor], tf.Tensor]] = {
    "numbers": _steps_of_numbers,
    "counts": _steps_of_ids,
    "embedding": _steps_of_vectors,
}


def embedding_table(spec: FeatureSpec, name: str) -> tf.Tensor:
    """The variable of an embedding column, [ids, dimension], in the current scope.

    A shared table is at the root scope, under its own name, as with `tf.feature_column`.
    """
    column = spec.of_kind(Embedding)[name]
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
    """The tables of a graph that start from pretrained vectors, by column name."""
    names = _PRETRAINED.get(graph, {})
    found = {variable.op.name: variable for variable in graph.get_collection("variables")}
    return {column: found[name] for column, name in names.items()}


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
      ids: int64 [rows], or a RaggedTensor [rows, None]. -1 is a missing id and adds nothing.
      combiner: how the vectors e with the weights w (by default 1) become one vector: `sum` is
        sum(w e), `mean` is sum(w e) / sum(w), and `sqrtn` is sum(w e) / sqrt(sum(w^2)). A row
        without vectors gets zeros. As in `tf.nn.safe_embedding_lookup_sparse`, `mean` and `sqrtn`
        ignore weights of 0 or less.
      weights: float32 [rows, None], one weight per ragged id.
      max_norm: the largest length of a vector. Longer vectors are scaled down to it.

    With the ids 0 and 2 and the weights 3 and 1, `mean` is (3 e0 + e2) / 4.
    """
    if not isinstance(ids, tf.RaggedTensor):
        found = tf.nn.embedding_lookup(table, tf.maximum(ids, 0), max_norm=max_norm)
        # v1.where takes one condition per row, and its gradient needs no ops on shapes.
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


def counts(ids: Ids, size: int, weights: Optional[tf.RaggedTensor] = None) -> tf.Tensor:
    """The count of each id in a row, or the sum of its weights: float32 [rows, size]."""
    if not isinstance(ids, tf.RaggedTensor):
        return tf.one_hot(ids, size)
    # One addition per id instead of a one-hot row per id.
    there = ids.flat_values >= 0
    row_of = tf.boolean_mask(ids.value_rowids(), there)
    cell = row_of * size + tf.boolean_mask(ids.flat_values, there)
    weight = tf.ones_like(cell, tf.float32)
    if weights is not None:
        weight = tf.boolean_mask(weights.flat_values, there)
    counts = tf.math.unsorted_segment_sum(weight, cell, ids.nrows() * size)
    return tf.reshape(counts, [-1, size])
