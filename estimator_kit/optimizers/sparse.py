"""Optimizers for embedding tables: Adagrad, Adam and Adam with decay, with TensorFlow's slots.

`adagrad` takes faster steps with the same results. TensorFlow's op for a sparse step updates one
row after the other. Gathering the rows of the batch, updating all of them at once and writing them
back is up to twice as fast. The results and the checkpoint are the same (a test compares them), so
each can continue from the other's checkpoint.

Reading and writing are two ops here. If other processes write the same table in between, as on a
parameter server, one step could undo another. There, TensorFlow's own op is used.

`adamw` also shrinks the weights, apart from the gradient. An L2 penalty in the loss goes through
Adam's division by the root of v, so weights with large gradients shrink less. Here all weights
shrink by the same share. Embedding tables are trained as in `lazy_adam`: a row that is not in the
batch keeps its weights. So the time of a step does not grow with the table, and rare ids do not
decay to 0 between two occurrences. The slots have the names of Adam's slots, so each can continue
from the other's checkpoint.

`lazy_adam` updates only those rows of a table that are in the batch. TensorFlow's Adam updates
every row of a table in each step, because rows keep moving with their momentum. The time of a step
therefore grows with the table: for 2.6 million rows of 16 numbers it is ten times the time here.
The variables and slots are the same, so each can continue from the other's checkpoint.

Adds up the gradients of equal ids, before anything measures, limits, averages or applies them.

    pairs = [(summed(gradient), variable) for gradient, variable in pairs]

The gradient of a table is a list of ids and rows (`tf.IndexedSlices`). An id that a batch has
several times is several times in it. Its gradient is the sum of these rows, so a norm, a limit or a
square of single rows is wrong. Only sums and scaling may come before `summed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import tensorflow as tf


def summed(gradient: Any) -> Any:
    """A gradient in which each id occurs once, in the order of the first occurrences.

    The ids 4, 1, 4 with the rows 2, 3 and 5 become 4 and 1 with the rows 7 and 3. A gradient that
    is dense or already summed is returned unchanged.
    """
    if not isinstance(gradient, tf.IndexedSlices) or _is_unique(gradient.indices):
        return gradient
    ids, places = tf.unique(gradient.indices)
    rows = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
    return tf.IndexedSlices(rows, ids, gradient.dense_shape)


def on_common_rows(gradients: Sequence[tf.IndexedSlices]) -> list[tf.Tensor]:
    """The rows of sparse gradients of one variable, on the union of their ids: float32 [ids, ...].

    Rows of equal ids are added up. The gradients are not converted to dense tables.
    """
    ids, place = tf.unique(tf.concat([g.indices for g in gradients], axis=0))
    places = tf.split(place, [tf.size(g.indices) for g in gradients])
    return [
        tf.math.unsorted_segment_sum(g.values, p, tf.size(ids)) for g, p in zip(gradients, places)
    ]


class SummedRows:
    """For optimizers: adds up the rows with four operations fewer than the base class."""

    def _resource_apply_sparse_duplicate_indices(
        self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        once = summed(tf.IndexedSlices(grad, indices))
        return self._resource_apply_sparse(once.values, handle, once.indices)  # type: ignore[attr-defined]


def _is_unique(ids: tf.Tensor) -> bool:
    """Whether `summed` made the ids."""
    return ids.op.type == "Unique" and ids is ids.op.outputs[0]


class AdagradOptimizer(SummedRows, tf.compat.v1.train.AdagradOptimizer):
    """`tf.compat.v1.train.AdagradOptimizer`, whose arguments it takes (Duchi et al., JMLR 2011).

    A step on a row w with the gradient g and the accumulator a, which starts at 0.1, computes
    a += g^2, and then w -= rate * g / sqrt(a). With rate 1, g = 3 and a = 0.1, w decreases by
    3 / sqrt(9.1) = 0.9945.
    """

    def _resource_apply_sparse(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        """Each row is passed once, with the sum of its gradients."""
        if tf.DeviceSpec.from_string(var.device or "").job:
            return super()._resource_apply_sparse(grad, var, indices)
        accumulator = self.get_slot(var, "accumulator")
        rate = tf.cast(self._learning_rate_tensor, grad.dtype)
        raised = gather_rows(accumulator, indices) + grad * grad
        stepped = gather_rows(var, indices) - rate * grad * tf.math.rsqrt(raised)
        return tf.group(
            write_rows(accumulator, indices, raised), write_rows(var, indices, stepped), name="step"
        )


def gather_rows(variable: tf.Variable, indices: tf.Tensor) -> tf.Tensor:
    """Rows of a resource variable."""
    return tf.raw_ops.ResourceGather(
        resource=variable.handle, indices=indices, dtype=variable.dtype.base_dtype
    )


def write_rows(variable: tf.Variable, indices: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
    """Overwrites rows of a resource variable. Each row may occur only once."""
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=indices, updates=rows)


class _AdamStep(NamedTuple):
    """Scalars of a step. `rate` contains the corrections of the first steps."""

    rate: tf.Tensor
    beta1: tf.Tensor
    beta2: tf.Tensor
    one_minus_beta1: tf.Tensor
    one_minus_beta2: tf.Tensor


class LazyAdamOptimizer(SummedRows, tf.compat.v1.train.AdamOptimizer):
    """`tf.compat.v1.train.AdamOptimizer` (Kingma & Ba, ICLR 2015), whose arguments it takes.

    For the rows w of a table that are in the batch, with the gradient g, at step t:

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        w = w - rate sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon)

    Other rows keep w, m and v. This differs from Adam, except for variables of which every step
    uses all rows. With the rate 0.1 and the other defaults, the first step moves a row by 0.1
    against the sign of g.

    If several processes update one table at the same time, updates of m and v may be lost, but
    never updates of w.
    """

    _of_float32: Optional[_AdamStep] = None

    def _prepare(self) -> None:
        super()._prepare()
        # Replicas of a strategy have their own values on their devices.
        strategy = tf.distribute.has_strategy()
        self._of_float32 = None if strategy else self._numbers_of_step(tf.float32)

    def _numbers_of_step(self, dtype: tf.DType) -> _AdamStep:
        """What is the same for all variables in a step. Without sharing, it is 13 ops for each."""
        power1, power2 = (tf.cast(p, dtype) for p in self._get_beta_accumulators())
        beta1, beta2 = (tf.cast(b, dtype) for b in (self._beta1_t, self._beta2_t))
        rate = tf.cast(self._lr_t, dtype) * tf.sqrt(1 - power2) / (1 - power1)
        return _AdamStep(rate, beta1, beta2, 1 - beta1, 1 - beta2)

    def _resource_apply_sparse(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        """Each row is passed once, with the sum of its gradients."""
        step = self._of_float32 if grad.dtype == tf.float32 else None
        rate, beta1, beta2, rest1, rest2 = step or self._numbers_of_step(grad.dtype)
        first, second = self.get_slot(var, "m"), self.get_slot(var, "v")
        m = beta1 * gather_rows(first, indices) + rest1 * grad
        v = beta2 * gather_rows(second, indices) + rest2 * grad * grad
        change = rate * m / (tf.sqrt(v) + tf.cast(self._epsilon_t, grad.dtype))
        return tf.group(
            write_rows(first, indices, m),
            write_rows(second, indices, v),
            tf.raw_ops.ResourceScatterSub(resource=var.handle, indices=indices, updates=change),
            name="step",
        )


class AdamWOptimizer(LazyAdamOptimizer):
    """AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization, ICLR 2019).

    A step first decays the weights w, and then does the step of `LazyAdamOptimizer`:

        w = w - rate * weight_decay * w

    A schedule multiplies the rate in both. A step with the rate 0.1 and a decay of 0.5 takes a
    weight of 2 with a positive gradient to 2 - 0.1 - 0.1 = 1.8 in the first step. As in
    `tf.keras.optimizers.AdamW`, the rate multiplies the decay.

    Args:
      learning_rate: the rate, a number or a tensor.
      weight_decay: the decay, 0 or more.
      **arguments: of `tf.compat.v1.train.AdamOptimizer`.
    """

    def __init__(self, learning_rate: Any, weight_decay: float, **arguments: Any):
        super().__init__(learning_rate, **arguments)
        self._weight_decay = weight_decay

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        # All gradients are computed from the weights before the decay.
        with tf.control_dependencies([grad]):
            decayed = var.assign_sub(self._share(grad) * var.read_value(), read_value=False)
        with tf.control_dependencies([decayed]):
            return super()._resource_apply_dense(grad, var)

    def _resource_apply_sparse(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        """Each row is passed once, with the sum of its gradients."""
        with tf.control_dependencies([grad]):
            change = self._share(grad) * gather_rows(var, indices)
        decayed = tf.raw_ops.ResourceScatterSub(
            resource=var.handle, indices=indices, updates=change
        )
        with tf.control_dependencies([decayed]):
            return super()._resource_apply_sparse(grad, var, indices)

    def _share(self, grad: tf.Tensor) -> tf.Tensor:
        return tf.cast(self._lr_t, grad.dtype) * tf.cast(self._weight_decay, grad.dtype)
