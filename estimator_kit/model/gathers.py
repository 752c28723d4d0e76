"""Makes columns dense: tables of functions by the form that a kind names (`Column.dense`).

    DENSE["counts"](spec, name, features)    # float32 [rows, width] of a column of a record
    STEPS["counts"](spec, name, ragged)      # float32 [rows, steps, width] of a sequence column
    gather_all([(table, ids), ...])          # several tables, one id in each row: fewer ops

`Transform` has already converted strings to ids. A column with one value per record therefore needs
one gather and no SparseTensor. Embedding variables are created in the current scope, with the names
and shapes of canned estimators. A row without ids gets zeros, as with `tf.feature_column`.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import tensorflow as tf

from estimator_kit.embeddings import growing_ids, table_memory
from estimator_kit.errors import ConfigError
from estimator_kit.model import table_gradients
from feature_specs.embeddings.initial_values import initializer
from feature_specs.errors import did_you_mean
from feature_specs.kinds import Embedding
from feature_specs.kinds.base import Dense
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features, weights_of

Ids = Union[tf.Tensor, tf.RaggedTensor]

# How many columns `gather_all` puts together. More would need more memory and save nothing.
_MOST_TOGETHER = 32

# For each graph, the names of variables that start from pretrained vectors, by column. They are not
# in a collection of the graph, because TensorFlow would write it into each MetaGraph. They are
# names, because a variable would keep its graph alive.
_PRETRAINED: weakref.WeakKeyDictionary[tf.Graph, dict[str, str]] = weakref.WeakKeyDictionary()

# The name of a table in the scope of its column.
TABLE = "embedding_weights"

# For each graph, the names of the tables that were made for a column.
_TABLES: weakref.WeakKeyDictionary[tf.Graph, dict[str, set[str]]] = weakref.WeakKeyDictionary()


def _numbers(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    return features[name]


def _counts(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    category, _ = spec.category_of(name)
    weights = features.get(weights_of(category))
    return counts(features[category], spec.size_of(category), weights)


def _flag(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    return tf.cast(features[name], tf.float32)[:, tf.newaxis]


def _embedding(spec: FeatureSpec, name: str, features: Features) -> tf.Tensor:
    column, (category, _) = spec.of_kind(Embedding)[name], spec.category_of(name)
    weights = features.get(weights_of(category))
    table = _read_table(spec, name, features[category])
    return gather(
        table, features[category], column.combiner, weights=weights, max_norm=column.max_norm
    )


def _steps_of_numbers(spec: FeatureSpec, name: str, values: tf.RaggedTensor) -> tf.Tensor:
    return values.to_tensor()[:, :, tf.newaxis]


def _steps_of_ids(spec: FeatureSpec, name: str, values: tf.RaggedTensor) -> tf.Tensor:
    ids = values.to_tensor(default_value=-1)
    return tf.one_hot(ids, spec.size_of(spec.category_of(name)[0]))


def _steps_of_vectors(spec: FeatureSpec, name: str, values: tf.RaggedTensor) -> tf.Tensor:
    table = _read_table(spec, name, values)
    ids = values.to_tensor(default_value=-1)
    vectors = _rows_of(table, tf.maximum(ids, 0), spec.of_kind(Embedding)[name].max_norm)
    return tf.where(ids[:, :, tf.newaxis] >= 0, vectors, tf.zeros_like(vectors))


def _read_table(spec: FeatureSpec, name: str, ids: Ids) -> tf.Tensor:
    """The table of a column. Adds the penalty of the vectors that the ids look up."""
    table = make_table(spec, name)
    table_gradients.add(name, table, ids, spec.of_kind(Embedding)[name].l2, _rows_of)
    return table


DENSE: dict[Dense, Callable[[FeatureSpec, str, Features], tf.Tensor]] = {
    "numbers": _numbers,
    "counts": _counts,
    "flag": _flag,
    "embedding": _embedding,
}
# A sequence column cannot be a flag.
STEPS: dict[Dense, Callable[[FeatureSpec, str, tf.RaggedTensor], tf.Tensor]] = {
    "numbers": _steps_of_numbers,
    "counts": _steps_of_ids,
    "embedding": _steps_of_vectors,
}


def make_table(spec: FeatureSpec, name: str) -> tf.Tensor:
    """The variable of an embedding column, [ids, dimension], in the current scope.

    A shared table is at the root scope, under its own name, as with `tf.feature_column`.
    """
    column = spec.of_kind(Embedding)[name]
    v1 = tf.compat.v1
    if column.table is None:
        scope, variable = v1.variable_scope(spec.canned_name(name)), TABLE
    else:
        root = v1.VariableScope(v1.AUTO_REUSE, name="")
        scope, variable = v1.variable_scope(root, auxiliary_name_scope=False), column.table
    shape = [spec.size_of(column.source), column.dimension]
    with scope, made_once(f"the table of the column {name!r}"):
        table = v1.get_variable(
            variable,
            shape,
            initializer=initializer(column),
            trainable=column.trainable,
            partitioner=_partitioner(column, shape),
        )
        scope_name = v1.get_variable_scope().name
    growing_ids.add(spec, name, table)
    tables = _TABLES.setdefault(tf.compat.v1.get_default_graph(), {}).setdefault(name, set())
    tables.add(f"{scope_name}/{variable}" if scope_name else variable)
    if column.pretrained is not None:
        _PRETRAINED.setdefault(table.graph, {})[name] = table.op.name
    return table


@contextlib.contextmanager
def made_once(what: str) -> Iterator[None]:
    """Explains the error of `get_variable` if a model reads a column twice.

    Args:
      what: what the variable is, for the message.
    """
    try:
        yield
    except ValueError as error:
        scope = tf.compat.v1.get_variable_scope().name
        if "Trying to share variable" in str(error):  # With reuse, and of another column.
            raise ConfigError(
                f"{what} would be a variable in {scope}, which another column of the same features "
                "has made there with another shape. Read each column in another `with "
                "tf.compat.v1.variable_scope(name):`, or read the same column in both places."
            ) from error
        if "already exists" not in str(error):
            raise
        raise ConfigError(
            f"{what} exists already as {scope}, got a second call for it. Keep the result of the "
            "first call. To read it again, put each call into `with tf.compat.v1.variable_scope"
            '("name", reuse=tf.compat.v1.AUTO_REUSE):`. Another name makes another variable.'
        ) from error


def table_of(spec: FeatureSpec, name: str) -> Any:
    """The variable that `make_table` made for a column in this graph.

    Raises:
      ConfigError: the model has made no such variable, or several.
    """
    column = spec.of_kind(Embedding).get(name)
    if column is None:
        embeddings = list(spec.of_kind(Embedding))
        raise ConfigError(
            f"embedding_table: got the column {name!r}, expected an embedding column"
            f"{did_you_mean(name, embeddings)}"
        )
    tables = _TABLES.get(tf.compat.v1.get_default_graph(), {}).get(name, set())
    if len(tables) != 1:
        tables_text = f"several tables: {', '.join(sorted(tables))}" if tables else "no table"
        remedy = (
            "Give the column a shared table" if tables else "Read a group with the column first"
        )
        raise ConfigError(
            f"embedding_table: the model has made {tables_text} for the column {name!r}, expected "
            f"one. {remedy}."
        )
    shape = [spec.size_of(column.source), column.dimension]
    v1 = tf.compat.v1
    with v1.variable_scope(v1.VariableScope(True, name=""), auxiliary_name_scope=False):
        return v1.get_variable(*tables, shape, partitioner=_partitioner(column, shape))


def _partitioner(column: Embedding, shape: Sequence[int]) -> Optional[Any]:
    return table_memory.partitioner(*shape) if column.pretrained is None else None


def pretrained_variables(graph: tf.Graph) -> dict[str, tf.Variable]:
    """The tables of a graph that start from pretrained vectors, by column name."""
    names = _PRETRAINED.get(graph, {})
    variables = {variable.op.name: variable for variable in graph.get_collection("variables")}
    return {column: variables[name] for column, name in names.items()}


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
        vectors = _rows_of(table, tf.maximum(ids, 0), max_norm)
        return tf.compat.v1.where(ids >= 0, vectors, tf.zeros_like(vectors))
    rows = ids.nrows()
    has_id = ids.flat_values >= 0
    if weights is not None and combiner != "sum":
        has_id &= weights.flat_values > 0
    places = tf.squeeze(tf.where(has_id), 1)
    row_of = tf.gather(row_ids(ids), places)
    vectors = _rows_of(table, tf.gather(ids.flat_values, places), max_norm)
    weight = tf.ones_like(row_of, tf.float32)
    if weights is not None:
        weight = tf.gather(weights.flat_values, places)
        vectors *= weight[:, tf.newaxis]
    total = tf.math.unsorted_segment_sum(vectors, row_of, rows)
    total.set_shape([None, table.shape[1]])
    if combiner == "sum":
        return total
    if combiner == "mean":
        divisor = tf.math.unsorted_segment_sum(weight, row_of, rows)
    else:
        divisor = tf.sqrt(tf.math.unsorted_segment_sum(weight**2, row_of, rows))
    return tf.math.divide_no_nan(total, divisor[:, tf.newaxis])


def row_ids(ids: tf.RaggedTensor) -> tf.Tensor:
    """The row of each value of [rows, None], int32 [values], with half the ops of `value_rowids`.

    The row splits 0, 2, 2, 5 give 0, 0, 2, 2, 2. The row of a value is the number of rows, without
    the first one, that start at or before the value.
    """
    starts = tf.cast(ids.row_splits[1:-1], tf.int32)
    count = tf.shape(ids.flat_values)[0]
    # Empty rows at the end start at `count`, so there is one more segment.
    started = tf.math.unsorted_segment_sum(tf.ones_like(starts), starts, count + 1)
    return tf.cumsum(started)[:-1]


class Lookup(NamedTuple):
    """The ids that a column of one value looks up in its table. See `gather`."""

    table: Any
    ids: tf.Tensor
    max_norm: Optional[float] = None


class OneHot(NamedTuple):
    """The ids of a column of one value that becomes one-hot. See `counts`."""

    ids: tf.Tensor
    size: int


class Flag(NamedTuple):
    """The ids, 0 or 1, of a column that becomes one number."""

    ids: tf.Tensor


Later = Union[Lookup, OneHot, Flag]


def later(spec: FeatureSpec, name: str, features: Features) -> Optional[Later]:
    """What `completed` makes a dense column from, or None if only `DENSE` can make it.

    Makes the variable of the column.
    """
    category, _ = spec.category_of(name)
    ids, form = features[category], spec.columns[name].dense
    if isinstance(ids, tf.RaggedTensor) or form not in ("counts", "flag", "embedding"):
        return None
    if form == "flag":
        return Flag(ids)
    if form == "counts":
        return OneHot(ids, spec.size_of(category))
    return Lookup(_read_table(spec, name, ids), ids, spec.of_kind(Embedding)[name].max_norm)


def completed(columns: Mapping[str, Union[tf.Tensor, Later]]) -> dict[str, tf.Tensor]:
    """The columns, float32 [rows, width], of which some are still to be made, with few ops."""
    result = dict(columns)
    lookups = {n: column for n, column in columns.items() if isinstance(column, Lookup)}
    with tf.name_scope("lookups"):
        result.update(zip(lookups, gather_all(list(lookups.values()))))
    hot = {n: column for n, column in columns.items() if isinstance(column, OneHot)}
    with tf.name_scope("one_hot"):
        result.update(zip(hot, _one_hot(list(hot.values()))))
    flags = {n: column.ids for n, column in columns.items() if isinstance(column, Flag)}
    with tf.name_scope("flags"):
        result.update(zip(flags, _numbers_of(list(flags.values()))))
    return result


def gather_all(lookups: Sequence[Lookup]) -> list[tf.Tensor]:
    """`gather` of several tables with one id in each row: float32 [rows, width] of each table.

    Except for the lookups, all columns of one width share their ops.
    """
    result: dict[int, tf.Tensor] = {}
    for places in _together([int(lookup.table.shape[1]) for lookup in lookups]):
        group = [lookups[i] for i in places]
        if len(group) == 1:
            ((table, ids, max_norm),) = group
            result[places[0]] = gather(table, ids, max_norm=max_norm)
            continue
        ids = tf.stack([each.ids for each in group])
        # TensorFlow Lite cannot unstack int64.
        parts = tf.split(tf.maximum(ids, 0), [1] * len(group))
        vectors = [_rows_of(e.table, part, e.max_norm) for e, part in zip(group, parts)]
        result.update(zip(places, tf.unstack(_zeros_if_missing(ids, vectors), num=len(group))))
    return [result[i] for i in range(len(lookups))]


def _one_hot(columns: Sequence[OneHot]) -> list[tf.Tensor]:
    """`counts` of several columns with one id in each row: float32 [rows, size] of each column."""
    result: dict[int, tf.Tensor] = {}
    for places in _together([column.size for column in columns]):
        size = columns[places[0]].size
        if len(places) == 1:
            result[places[0]] = tf.one_hot(columns[places[0]].ids, size)
            continue
        hot = tf.one_hot(tf.stack([columns[i].ids for i in places]), size)
        result.update(zip(places, tf.unstack(hot, num=len(places))))
    return [result[i] for i in range(len(columns))]


def _numbers_of(flags: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Ids [rows] of several columns as numbers, float32 [rows, 1] of each column."""
    if not flags:
        return []
    numbers = tf.cast(tf.stack(flags, axis=1), tf.float32)
    return list(tf.split(numbers, len(flags), axis=1))


def _together(widths: Sequence[int]) -> list[list[int]]:
    """The places of equal widths, in parts of at most `_MOST_TOGETHER`."""
    result: list[list[int]] = []
    for width in dict.fromkeys(widths):
        places = [i for i, other in enumerate(widths) if other == width]
        starts = range(0, len(places), _MOST_TOGETHER)
        result += [places[start : start + _MOST_TOGETHER] for start in starts]
    return result


def _zeros_if_missing(ids: tf.Tensor, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Vectors [1, rows, width] as [columns, rows, width], with zeros where the id is -1."""
    width = vectors[0].shape[2]
    together = tf.reshape(tf.concat(vectors, axis=0), [-1, width])
    # v1.where takes one condition per row, and its gradient needs no ops on shapes.
    has_id = tf.reshape(ids >= 0, [-1])
    kept = tf.compat.v1.where(has_id, together, tf.zeros_like(together))
    return tf.reshape(kept, [len(vectors), -1, width])


def _rows_of(table: Any, ids: tf.Tensor, max_norm: Optional[float]) -> tf.Tensor:
    """The rows of a table, [..., width], on the device of the table."""
    if max_norm is not None or not hasattr(table, "sparse_read"):
        return tf.nn.embedding_lookup(table, ids, max_norm=max_norm)
    with tf.compat.v1.colocate_with(table):
        return tf.gather(table, ids)


def counts(ids: Ids, size: int, weights: Optional[tf.RaggedTensor] = None) -> tf.Tensor:
    """The count of each id in a row, or the sum of its weights: float32 [rows, size]."""
    if not isinstance(ids, tf.RaggedTensor):
        return tf.one_hot(ids, size)
    # One addition per id instead of a one-hot row per id.
    places = tf.squeeze(tf.where(ids.flat_values >= 0), 1)
    row_of = tf.cast(tf.gather(row_ids(ids), places), tf.int64)
    cell = row_of * size + tf.gather(ids.flat_values, places)
    weight = tf.ones_like(cell, tf.float32)
    if weights is not None:
        weight = tf.gather(weights.flat_values, places)
    counts = tf.math.unsorted_segment_sum(weight, cell, ids.nrows() * size)
    return tf.reshape(counts, [-1, size])
