"""Adam whose steps also shrink the weights, apart from the gradient.

An L2 penalty in the loss goes through Adam's division by the root of v, so weights with large
gradients shrink less. Here all weights shrink by the same share. Embedding tables are trained as
in `lazy_adam`: a row that is not in the batch keeps its weights. So the time of a step does not
grow with the table, and rare ids do not decay to 0 between two occurrences. The slots have the
names of Adam's slots, so each can continue from the other's checkpoint.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_kit.optimizers.adagrad import gather_rows
from estimator_kit.optimizers.lazy_adam import LazyAdamOptimizer


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
