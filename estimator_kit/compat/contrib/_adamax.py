"""The AdaMax optimizer of tf.contrib.opt."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from ._adam import hyperparameters


class AdaMaxOptimizer(tf.train.AdamOptimizer):
    """AdaMax (https://arxiv.org/abs/1412.6980, section 7.1); a sparse gradient moves its own rows.

    The step is `learning_rate / (1 - beta1^t) * m / (v + epsilon)`, where `v` is the largest
    gradient so far, decayed by beta2.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _get_beta_accumulators(self) -> Any:
        graph = None if tf.executing_eagerly() else tf.get_default_graph()
        return self._get_non_slot_variable("beta1_power", graph=graph)

    def _create_slots(self, var_list: Any) -> None:
        first = min(var_list, key=lambda variable: variable.name)
        self._create_non_slot_variable(
            initial_value=self._beta1, name="beta1_power", colocate_with=first
        )
        for variable in var_list:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m, new_v, step = self._step(grad, var, m, v)
        locking = self._use_locking
        return tf.group(
            tf.assign(m, new_m, use_locking=locking),
            tf.assign(v, new_v, use_locking=locking),
            tf.assign_sub(var, step, use_locking=locking),
        )

    _resource_apply_dense = _apply_dense

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._resource_apply_sparse(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m, new_v, step = self._step(grad, var, tf.gather(m, indices), tf.gather(v, indices))
        return tf.group(
            m.scatter_update(tf.IndexedSlices(new_m, indices)),
            v.scatter_update(tf.IndexedSlices(new_v, indices)),
            var.scatter_sub(tf.IndexedSlices(step, indices)),
        )

    def _step(self, grad: Any, var: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
        beta1, beta2, rate, epsilon = hyperparameters(self, var)
        power = tf.cast(self._get_beta_accumulators(), grad.dtype)
        new_m = beta1 * m + (1 - beta1) * grad
        new_v = tf.maximum(beta2 * v, tf.abs(grad))
        return new_m, new_v, rate / (1 - power) * new_m / (new_v + epsilon)

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        power = self._get_beta_accumulators()
        with tf.control_dependencies(update_ops), tf.colocate_with(power):
            update = power.assign(power * self._beta1_t, use_locking=self._use_locking)
        return tf.group(*update_ops, update, name=name_scope)
