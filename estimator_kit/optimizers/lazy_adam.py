"""Adam whose steps update only those rows of an embedding table that are in the batch.

TensorFlow's Adam updates every row of a table in each step, because rows keep moving with their
momentum. The time of a step therefore grows with the table: for 2.6 million rows of 16 numbers it
is ten times the time here. The variables and slots are the same, so each can continue from the
other's checkpoint.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.optimizers.adagrad import gather_rows, write_rows
from estimator_kit.optimizers.summed_rows import SummedRows


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

    def _resource_apply_sparse(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        """Each row is passed once, with the sum of its gradients."""
        power1, power2 = (tf.cast(p, grad.dtype) for p in self._get_beta_accumulators())
        beta1, beta2 = (tf.cast(b, grad.dtype) for b in (self._beta1_t, self._beta2_t))
        rate = tf.cast(self._lr_t, grad.dtype) * tf.sqrt(1 - power2) / (1 - power1)
        first, second = self.get_slot(var, "m"), self.get_slot(var, "v")
        m = beta1 * gather_rows(first, indices) + (1 - beta1) * grad
        v = beta2 * gather_rows(second, indices) + (1 - beta2) * grad * grad
        change = rate * m / (tf.sqrt(v) + tf.cast(self._epsilon_t, grad.dtype))
        return tf.group(
            write_rows(first, indices, m),
            write_rows(second, indices, v),
            tf.raw_ops.ResourceScatterSub(resource=var.handle, indices=indices, updates=change),
            name="step",
        )
