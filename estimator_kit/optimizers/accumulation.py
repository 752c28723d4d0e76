"""Adds up the gradients of several batches before a step, for batches that do not fit in memory.

The sums are variables, so that a training that was stopped between two steps can continue. The sum
of a dense gradient needs as much memory as its variable. The sum for an embedding table is a list
of the rows of the batches since the last step, independent of the size of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit.optimizers.summed_rows import summed

# The prefix of the names of the variables with the sums.
ACCUMULATED = "accumulated/"


def accumulated(
    pairs: Sequence[tuple[Any, Any]],
    count: int,
    step: Any,
    apply: Callable[[Sequence[tuple[Any, Any]]], tf.Operation],
) -> tf.Operation:
    """Adds up gradients. After every `count` batches, applies their mean and starts again at 0.

    Args:
      pairs: (gradient, variable), with the gradients of this batch.
      count: the number of batches per step.
      step: the global step, which counts batches. A step is made when its next value is divisible
        by `count`.
      apply: makes the op of a step from such pairs.
    """
    # Saving a checkpoint reads these variables, which must not wait for a batch.
    with tf.init_scope():
        sums = [_Sum(gradient, variable) for gradient, variable in pairs]
    with tf.control_dependencies([sum_.add(g) for sum_, (g, _) in zip(sums, pairs)]):
        due = tf.equal((step.read_value() + 1) % count, 0)

    def take() -> tf.Tensor:
        means = [(sum_.mean(count), variable) for sum_, (_, variable) in zip(sums, pairs)]
        with tf.control_dependencies([apply(means)]):
            cleared = [sum_.clear() for sum_ in sums]
        with tf.control_dependencies(cleared):
            return tf.constant(True)

    return tf.cond(due, take, lambda: tf.constant(False)).op


class _Sum:
    """The sum of the gradients of one variable, dense or as rows with ids."""

    def __init__(self, gradient: Any, variable: Any):
        name = ACCUMULATED + variable.op.name
        self._shape = variable.shape
        self._sparse = isinstance(gradient, tf.IndexedSlices)
        if not self._sparse:
            self._sum = _variable(name, tf.zeros(self._shape, gradient.dtype), self._shape)
            return
        width = self._shape[1:]
        self._ids = _variable(f"{name}/ids", tf.zeros([0], gradient.indices.dtype), [None])
        self._rows = _variable(
            f"{name}/rows", tf.zeros([0, *width], gradient.dtype), [None, *width]
        )

    def add(self, gradient: Any) -> tf.Operation:
        if not self._sparse:
            return self._sum.assign_add(gradient, read_value=False)
        return tf.group(_append(self._ids, gradient.indices), _append(self._rows, gradient.values))

    def mean(self, count: int) -> Any:
        if not self._sparse:
            return self._sum.read_value() / count
        shape = tf.constant(self._shape.as_list(), tf.int64)
        rows, ids = self._rows.read_value() / count, self._ids.read_value()
        return summed(tf.IndexedSlices(rows, ids, shape))

    def clear(self) -> tf.Operation:
        if not self._sparse:
            return self._sum.assign(tf.zeros(self._shape, self._sum.dtype), read_value=False)
        width = self._shape[1:]
        return tf.group(
            self._ids.assign(tf.zeros([0], self._ids.dtype), read_value=False),
            self._rows.assign(tf.zeros([0, *width], self._rows.dtype), read_value=False),
        )


def _variable(name: str, value: tf.Tensor, shape: Any) -> Any:
    return tf.compat.v1.Variable(
        value, trainable=False, name=name, use_resource=True, shape=tf.TensorShape(shape)
    )


def _append(variable: Any, values: tf.Tensor) -> tf.Operation:
    return variable.assign(tf.concat([variable.read_value(), values], axis=0), read_value=False)
