"""Gradients of table lookups with a third of TensorFlow's operations.

    with gather_gradients.short():
        ...                      # makes a graph: its lookups get these gradients

TensorFlow's gradient of a lookup computes the shape of its values from the shape of the table, in
twelve operations for each column. Here the shape comes from the graph. The values are the same (a
test compares them). For a table whose width is unknown, the gradient is TensorFlow's.
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
    handle, ids = op.inputs[0], op.inputs[1]
    if ids.shape.rank is None or op.outputs[0].shape.rank is None:
        return list(_theirs(op, gradient))
    row = op.outputs[0].shape[ids.shape.rank :]
    if not row.is_fully_defined():
        return list(_theirs(op, gradient))
    if isinstance(gradient, tf.IndexedSlices):
        gradient = tf.convert_to_tensor(gradient)
    if ids.shape.rank != 1:
        ids = tf.reshape(ids, [-1])
        gradient = tf.reshape(gradient, [-1, *row])
    return [tf.IndexedSlices(gradient, ids, tf.raw_ops.VariableShape(input=handle)), None]


def _theirs(op: tf.Operation, gradient: Any) -> Any:
    shape = tf.raw_ops.VariableShape(input=op.inputs[0])
    size = tf.reshape(tf.size(op.inputs[1]), [1])
    values = tf.reshape(gradient, tf.concat([size, shape[1:]], 0))
    return tf.IndexedSlices(values, tf.reshape(op.inputs[1], size), shape), None
