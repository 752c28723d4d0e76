"""Adam whose step on an embedding table touches the rows of the batch, and no others.

TensorFlow's Adam lets every row of a table go on moving with its momentum, so that a step's time
grows with the table: 2.6 million rows of 16 cost ten times what they do here. The variables and
slots are those of Adam, and either goes on from the other's checkpoint.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.optimizers.adagrad import gather_rows, write_rows


class LazyAdamOptimizer(tf.compat.v1.train.AdamOptimizer):
    """`tf.compat.v1.train.AdamOptimizer` (Kingma & Ba, ICLR 2015), whose arguments it takes.

    For the rows w of a table that a batch has, with the gradient g, at the t-th step of all:

        m = beta1 m + (1 - beta1) g
        v = beta2 v + (1 - beta2) g^2
        w = w - rate sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon)

    Rows that it does not have keep w, m and v: their momentum waits for them. That is another
    algorithm than Adam, except for variables that every step has whole. With rate 0.1 and the
    others as they are by default, the first step of a row moves it by 0.1 against g's sign.

    Several processes that step on one table at once may lose each other's m and v, never a w.
    """

    def _resource_apply_sparse(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        """The base class calls it with each row once: gradients of a row are added up before."""
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
