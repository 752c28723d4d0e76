"""Gradients of table lookups with a third of TensorFlow's operations.

    with gather_gradients.short(training=True):
        ...                      # makes a graph: its lookups get these gradients

TensorFlow's gradient of a lookup computes the shape of its values from the shape of the table, in
twelve operations for each column. Here the shape comes from the graph. The values are the same (a
test compares them). The shape is computed only for a table whose width is unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

_NAME = "EstimatorKitResourceGather"


@contextlib.contextmanager
def short(*, training: bool) -> Iterator[None]:
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
    known = row.is_fully_defined()
    if not known or ids.shape.rank != 1:
        values = [-1, *row] if known else tf.concat([[-1], shape[1:]], 0)
        ids, gradient = tf.reshape(ids, [-1]), tf.reshape(gradient, values)
    return [tf.IndexedSlices(gradient, ids, shape), None]
