"""Decoupled weight decay of tf.contrib.opt (https://arxiv.org/abs/1711.05101).

Before a variable gets its gradient, `weight_decay * variable` is subtracted from it. The learning
rate does not scale the decay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

import tensorflow.compat.v1 as tf


class DecoupledWeightDecayExtension:
    """Adds weight decay to the optimizer class that a subclass names after it.

    `weight_decay` is a float, a Tensor, or a function without arguments that returns one. The other
    arguments are for the optimizer.
    """

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._decay_var_list: Optional[set[Any]] = None
        self._weight_decay = weight_decay
        self._weight_decay_tensor: Any = None
        super().__init__(**kwargs)

    def minimize(
        self, *args: Any, decay_var_list: Optional[Iterable[Any]] = None, **kwargs: Any
    ) -> Any:
        """`tf.train.Optimizer.minimize`; all variables decay.

        As in TensorFlow 1.15, `decay_var_list` is ignored here. Use `apply_gradients` with it.
        """
        if decay_var_list:
            tf.logging.warning(
                "minimize ignores decay_var_list, as in TensorFlow 1.15: all variables decay. Call "
                "apply_gradients(compute_gradients(loss), decay_var_list=...) instead."
            )
        optimizer: Any = super()
        return optimizer.minimize(*args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Any,
        global_step: Any = None,
        name: Optional[str] = None,
        decay_var_list: Optional[Iterable[Any]] = None,
    ) -> Any:
        """As `apply_gradients` of the optimizer; only `decay_var_list` decays, or all."""
        self._decay_only(decay_var_list)
        optimizer: Any = super()
        return optimizer.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _decay_only(self, variables: Optional[Iterable[Any]]) -> None:
        self._decay_var_list = {variable.ref() for variable in variables or ()}

    def _prepare(self) -> None:
        decay = self._weight_decay
        self._weight_decay_tensor = tf.convert_to_tensor(
            decay() if callable(decay) else decay, name="weight_decay"
        )
        optimizer: Any = super()
        optimizer._prepare()

    def _decay(self, grad: Any, var: Any, indices: Any = None) -> list[Any]:
        if self._decay_var_list and var.ref() not in self._decay_var_list:
            return []
        rate = tf.cast(self._weight_decay_tensor, var.dtype.base_dtype)
        # The gradient belongs to the value before the decay.
        with tf.control_dependencies([grad]):
            if indices is None:
                return [tf.assign_sub(var, rate * var)]
            return [var.scatter_sub(tf.IndexedSlices(rate * tf.gather(var, indices), indices))]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        optimizer: Any = super()
        with tf.control_dependencies(self._decay(grad, var)):
            return optimizer._apply_dense(grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        optimizer: Any = super()
        with tf.control_dependencies(self._decay(grad, var)):
            return optimizer._resource_apply_dense(grad, var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        optimizer: Any = super()
        with tf.control_dependencies(self._decay(grad.values, var, grad.indices)):
            return optimizer._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        optimizer: Any = super()
        with tf.control_dependencies(self._decay(grad, var, indices)):
            return optimizer._resource_apply_sparse(grad, var, indices)


def extend_with_decoupled_weight_decay(base_optimizer: type[Any]) -> type[Any]:
    """A subclass of an optimizer class; its first argument is the weight decay."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__(weight_decay, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf.train.MomentumOptimizer):
    """`tf.train.MomentumOptimizer` with weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            momentum=momentum,
            use_locking=use_locking,
            name=name,
            use_nesterov=use_nesterov,
        )


class AdamWOptimizer(DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
    """`tf.train.AdamOptimizer` with weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )
