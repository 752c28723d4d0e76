"""Changes of gradients before a step: sums over batches, limits, and dense gradients of tables.

`accumulate_steps` adds up the gradients of several batches that do not fit in memory. The sums and
the number of their batches are variables, so that a training that was stopped between two steps can
continue. The sum of a dense gradient needs as much memory as its variable. The sum for an embedding
table is a list of the rows of the batches since the last step, independent of the size of the
table.

Before a limit, rows of equal ids must be added up. See `sparse.summed`.

Collectives of several machines get dense gradients of tables. A TensorFlow collective has one fixed
shape. For sparse gradients it fails ("Shape mismatch in the collective instance") if their numbers
of rows differ between machines or steps. The gradient of a table has as many rows as a batch has
ids, or fewer after equal ids are added up. A dense tensor always has the same shape, but each step
then sends complete tables. Large tables belong on parameter servers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.optimizers.sparse import summed

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


def clipped(
    gradients: Sequence[Any], clip_norm: Optional[float], clip_value: Optional[float]
) -> list[Any]:
    """Limits gradients. Sparse gradients stay sparse.

    Args:
      gradients: tensors, and IndexedSlices in which each id occurs once.
      clip_norm: the limit on the norm of all gradients together. They are scaled down to it.
      clip_value: the limit on the absolute value of each number, applied before `clip_norm`.

    With clip_value 1, the gradients 3 and -4 become 1 and -1. With clip_norm 1, they become 0.6 and
    -0.8.
    """
    limited = list(gradients)
    if clip_value is not None:
        limited = [_limited(gradient, clip_value) for gradient in limited]
    if clip_norm is not None:
        norm = global_norm(limited)
        for dtype in dict.fromkeys(each.dtype.base_dtype for each in limited):
            places = [i for i, each in enumerate(limited) if each.dtype.base_dtype == dtype]
            of_type = [limited[i] for i in places]
            scaled, _ = tf.clip_by_global_norm(of_type, clip_norm, tf.cast(norm, dtype))
            for i, each in zip(places, scaled):
                limited[i] = each
    return limited


def global_norm(gradients: Sequence[Any]) -> tf.Tensor:
    """The norm of all gradients together, float32. A model may have variables of other types."""
    return tf.linalg.global_norm([_as_float32(gradient) for gradient in gradients])


def _as_float32(gradient: Any) -> Any:
    if gradient.dtype.base_dtype == tf.float32:
        return gradient
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.cast(gradient, tf.float32)
    values = tf.cast(gradient.values, tf.float32)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)


def _limited(gradient: Any, limit: float) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.clip_by_value(gradient, -limit, limit)
    values = tf.clip_by_value(gradient.values, -limit, limit)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)


def for_collectives(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The pairs (gradient, variable), with dense gradients if several machines reduce them.

    Otherwise the pairs are unchanged. Call this in the replica's part of the graph.
    """
    # MultiWorkerMirroredStrategy makes a strategy that is not an instance of that class.
    strategy = type(tf.distribute.get_strategy()).__name__
    if strategy != "CollectiveAllReduceStrategy":
        return list(pairs)
    return [(_dense(gradient, variable), variable) for gradient, variable in pairs]


def _dense(gradient: Any, variable: Any) -> Any:
    """A dense gradient in the shape of the variable. Rows of equal ids are added up."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
