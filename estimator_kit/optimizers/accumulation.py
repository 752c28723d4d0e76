"""Adds up the gradients of several batches before a step, for batches that do not fit in memory.

The sums and the number of their batches are variables, so that a training that was stopped between
two steps can continue. The sum of a dense gradient needs as much memory as its variable. The sum
for an embedding table is a list of the rows of the batches since the last step, independent of the
size of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.optimizers.summed_rows import summed

# The prefix of the names of the variables with the sums.
ACCUMULATED = "accumulated/"

# The name of the variable with the number of batches in the sums.
_BATCHES = f"{ACCUMULATED}batches"


def accumulated(
    pairs: Sequence[tuple[Any, Any]],
    count: int,
    step: Any,
    apply: Callable[[Sequence[tuple[Any, Any]]], tf.Operation],
    last_step: Optional[int] = None,
) -> tf.Operation:
    """Adds up gradients. After every `count` batches, applies their mean and starts again at 0.

    Args:
      pairs: (gradient, variable), with the gradients of this batch.
      count: the number of batches per step.
      step: the global step, which counts batches.
      apply: makes the op of a step from such pairs.
      last_step: the global step at which training ends. Its batch is followed by a step with the
        mean of the batches since the last step, which may be fewer than `count`. None if it is not
        known. Gradients that are left at the end then stay in the checkpoint.
    """
    # Saving a checkpoint reads these variables, which must not wait for a batch.
    with tf.init_scope():
        batches = _variable(_BATCHES, tf.constant(0, tf.int64), [])
        sums = [_Sum(gradient, variable) for gradient, variable in pairs]
    added = [sum_.add(gradient) for sum_, (gradient, _) in zip(sums, pairs)]
    with tf.control_dependencies([*added, batches.assign_add(1, read_value=False)]):
        number = batches.read_value()
        due = number >= count
        if last_step is not None:
            due |= step.read_value() + 1 >= last_step

    def take() -> tf.Tensor:
        means = [(sum_.mean(number), variable) for sum_, (_, variable) in zip(sums, pairs)]
        with tf.control_dependencies([apply(means)]):
            cleared = [sum_.clear() for sum_ in sums]
            cleared.append(batches.assign(0, read_value=False))
        with tf.control_dependencies(cleared):
            return tf.constant(True)

    return tf.cond(due, take, lambda: tf.constant(False)).op


def waiting(checkpoint: str) -> int:
    """The number of batches in a checkpoint whose gradients no step has used yet."""
    reader = tf.train.load_checkpoint(checkpoint)
    return int(reader.get_tensor(_BATCHES)) if reader.has_tensor(_BATCHES) else 0


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

    def mean(self, batches: tf.Tensor) -> Any:
        if not self._sparse:
            return self._sum.read_value() / tf.cast(batches, self._sum.dtype)
        shape = tf.constant(self._shape.as_list(), tf.int64)
        rows = self._rows.read_value() / tf.cast(batches, self._rows.dtype)
        return summed(tf.IndexedSlices(rows, self._ids.read_value(), shape))

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
