"""Gradients of table lookups: with a third of TensorFlow's operations, and with L2 penalties.

    with table_gradients.compact(training=True):
        ...                      # makes a graph: its lookups get these gradients

TensorFlow's gradient of a lookup computes the shape of its values from the shape of the table, in
twelve operations for each column. Here the shape comes from the graph. The values are the same (a
test compares them). The shape is computed only for a table whose width is unknown.

The field `l2` of an embedding column is a penalty on the vectors of a batch:

    penalty = l2 * (the sum of |e|^2 over the ids e of all rows) / rows

An id counts as often as it occurs in the batch, and a missing id costs nothing. With l2 = 0.1, two
rows with the vectors (3, 4) and (0, 1) cost 0.1 (25 + 1) / 2 = 1.3. So each row adds the squared
lengths of its vectors to the loss, as each rating does in Koren, Bell & Volinsky, "Matrix
Factorization Techniques for Recommender Systems", 2009. Vectors of other ids have no gradient.
`max_norm`, the combiner and weights of ids play no part.

    with table_gradients.collected(mode != ModeKeys.PREDICT) as penalties:
        logits = model.logits(features, mode)

A column that a model reads twice from one table counts once.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, Optional

import tensorflow as tf

_NAME = "EstimatorKitResourceGather"


@contextlib.contextmanager
def compact(*, training: bool) -> Iterator[None]:
    """Marks the lookups that the current graph gets in the context, if it is for training."""
    if not training:
        yield
        return
    with tf.compat.v1.get_default_graph().gradient_override_map({"ResourceGather": _NAME}):
        yield


@tf.RegisterGradient(_NAME)
def _gradient(op: tf.Operation, gradient: Any) -> list[Any]:
    ids, shape = op.inputs[1], tf.raw_ops.VariableShape(input=op.inputs[0])
    gradient = tf.convert_to_tensor(gradient)  # The gradient of a lookup in this one is sparse.
    row = op.outputs[0].shape[ids.shape.rank :]
    is_row_known = row.is_fully_defined()
    if not is_row_known or ids.shape.rank != 1:
        values = [-1, *row] if is_row_known else tf.concat([[-1], shape[1:]], 0)
        ids, gradient = tf.reshape(ids, [-1]), tf.reshape(gradient, values)
    return [tf.IndexedSlices(gradient, ids, shape), None]


# By column and table, the penalties of the graph that is being built, or None outside of it.
_Penalties = dict[tuple[str, str], tf.Tensor]
_PENALTIES: contextvars.ContextVar[Optional[_Penalties]] = contextvars.ContextVar(
    "penalties", default=None
)


@contextlib.contextmanager
def collected(wanted: bool) -> Iterator[_Penalties]:
    """Collects the penalties of the columns that the block reads, or makes none."""
    penalties: _Penalties = {}
    token = _PENALTIES.set(penalties if wanted else None)
    try:
        yield penalties
    finally:
        _PENALTIES.reset(token)


def add(
    column: str,
    table: Any,
    ids: tf.Tensor,
    l2: Optional[float],
    rows_of: Callable[[Any, tf.Tensor, Optional[float]], tf.Tensor],
) -> None:
    """Adds the penalty of a column to the block of `collected`, if there is one.

    Args:
      column: the name of the embedding column.
      table: its variable, [ids, dimension].
      ids: int64 [rows], or a RaggedTensor [rows, None] or [rows, None, None]. -1 is missing.
      l2: the factor, or None without a penalty.
      rows_of: looks up rows of a table (`gathers`).
    """
    penalties = _PENALTIES.get()
    if penalties is None or l2 is None or (column, table.name) in penalties:
        return
    with tf.name_scope(f"l2/{column}"):
        ragged = isinstance(ids, tf.RaggedTensor)
        flat = ids.flat_values if ragged else ids
        vectors = rows_of(table, tf.boolean_mask(flat, flat >= 0), None)
        rows = tf.cast(ids.nrows() if ragged else tf.size(ids), tf.float32)
        total = tf.reduce_sum(tf.square(vectors))
        penalties[column, table.name] = l2 * tf.math.divide_no_nan(total, rows)
