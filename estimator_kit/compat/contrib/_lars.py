"""The LARS optimizer of tf.contrib.opt (https://arxiv.org/abs/1708.03888)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import tensorflow.compat.v1 as tf


class LARSOptimizer(tf.train.MomentumOptimizer):
    """Momentum with a learning rate for each layer, for large batches.

    The rate is multiplied by `eeta * |w| / (|g| + weight_decay * |w| + epsilon)`, and the gradient
    gets `weight_decay * w`. A variable whose name has an entry of `skip_list` in it, and a sparse
    gradient, use plain momentum. The slot is named `momentum`.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Optional[Sequence[str]] = None,
        use_nesterov: bool = False,
    ) -> None:
        for given, value in (("momentum", momentum), ("weight_decay", weight_decay)):
            if value < 0.0:
                raise ValueError(f"{given}: expected at least 0, got {value}")
        super().__init__(learning_rate, momentum, name=name, use_nesterov=use_nesterov)
        self._weight_decay = weight_decay
        self._eeta = eeta
        self._epsilon = epsilon
        self._skip_list = skip_list

    def compute_lr(self, grad: Any, var: Any) -> tuple[Any, Any]:
        """The learning rate of a variable, and its gradient with the weight decay."""
        if any(part in var.name for part in self._skip_list or ()):
            return self._learning_rate, grad
        weight, gradient = tf.norm(var, ord=2), tf.norm(grad, ord=2)
        ratio = self._eeta * weight / (gradient + self._weight_decay * weight + self._epsilon)
        is_usable = tf.logical_and(weight > 0, gradient > 0)
        ratio = tf.where(is_usable, ratio, tf.ones_like(ratio))
        return self._learning_rate * ratio, grad + self._weight_decay * var

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update(tf.raw_ops.ApplyMomentum, grad, var, lambda v: v._ref())

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update(tf.raw_ops.ResourceApplyMomentum, grad, var, lambda v: v.handle)

    def _update(self, operation: Any, grad: Any, var: Any, input_of: Any) -> Any:
        rate, grad = self.compute_lr(grad, var)
        made = operation(
            var=input_of(var),
            accum=input_of(self.get_slot(var, "momentum")),
            lr=tf.constant(1.0, var.dtype.base_dtype),
            grad=grad * rate,
            momentum=self._momentum,
            use_locking=False,
            use_nesterov=self._use_nesterov,
        )
        return getattr(made, "op", made)
