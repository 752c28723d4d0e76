"""LazyAdam and Nadam of tf.contrib.opt.

Their slots are named `m` and `v`, as the slots of Adam are. Repeated rows of a sparse gradient are
summed before they reach these classes, by `tf.train.Optimizer`.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


class LazyAdamOptimizer(tf.train.AdamOptimizer):
    """Adam whose moments change only in the rows that a sparse gradient has.

    `tf.train.AdamOptimizer` decays the moments of all rows, and moves all rows, at each step.
    """

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._update_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._update_rows(grad, var, indices)

    def _update_rows(self, grad: Any, var: Any, indices: Any) -> Any:
        beta1, beta2, rate, epsilon = hyperparameters(self, var)
        power1, power2 = (tf.cast(p, grad.dtype) for p in self._get_beta_accumulators())
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        step = rate * tf.sqrt(1 - power2) / (1 - power1) * new_m / (tf.sqrt(new_v) + epsilon)
        return tf.group(
            m.scatter_update(tf.IndexedSlices(new_m, indices)),
            v.scatter_update(tf.IndexedSlices(new_v, indices)),
            var.scatter_sub(tf.IndexedSlices(step, indices)),
        )


class NadamOptimizer(tf.train.AdamOptimizer):
    """Adam with Nesterov momentum (Dozat, http://cs229.stanford.edu/proj2015/054_report.pdf).

    As in TensorFlow 1.15, a sparse gradient decays the moments of all rows, and moves its own.
    """

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update(tf.raw_ops.ApplyAdam, var, grad, lambda v: v._ref())

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._update(tf.raw_ops.ResourceApplyAdam, var, grad, lambda v: v.handle)

    def _update(self, operation: Any, var: Any, grad: Any, input_of: Any) -> Any:
        beta1, beta2, rate, epsilon = hyperparameters(self, var)
        power1, power2 = (tf.cast(p, grad.dtype) for p in self._get_beta_accumulators())
        made = operation(
            var=input_of(var),
            m=input_of(self.get_slot(var, "m")),
            v=input_of(self.get_slot(var, "v")),
            beta1_power=power1,
            beta2_power=power2,
            lr=rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            grad=grad,
            use_locking=self._use_locking,
            use_nesterov=True,
        )
        return getattr(made, "op", made)

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        beta1, beta2, rate, epsilon = hyperparameters(self, var)
        power1, power2 = (tf.cast(p, grad.dtype) for p in self._get_beta_accumulators())
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m, update_m = self._decay(m, beta1, (1 - beta1) * grad, indices)
        new_v, update_v = self._decay(v, beta2, (1 - beta2) * tf.square(grad), indices)
        step = rate * tf.sqrt(1 - power2) / (1 - power1)
        step = step * (beta1 * new_m + (1 - beta1) * grad) / (tf.sqrt(new_v) + epsilon)
        return tf.group(scatter_add(var, indices, -step), update_m, update_v)

    def _decay(self, slot: Any, beta: Any, added: Any, indices: Any) -> tuple[Any, Any]:
        """The new rows at the indices, and the operation that decays all rows and writes them."""
        rows = beta * tf.gather(slot, indices) + added
        with tf.control_dependencies([rows]):
            decay = tf.assign(slot, slot * beta, use_locking=self._use_locking)
        with tf.control_dependencies([decay]):
            return rows, slot.scatter_update(tf.IndexedSlices(rows, indices))


def hyperparameters(optimizer: Any, var: Any) -> list[Any]:
    """beta1, beta2, the learning rate and epsilon, in the dtype of the variable."""
    values = (optimizer._beta1_t, optimizer._beta2_t, optimizer._lr_t, optimizer._epsilon_t)
    return [tf.cast(value, var.dtype.base_dtype) for value in values]
