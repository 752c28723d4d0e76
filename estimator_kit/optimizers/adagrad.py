"""Adagrad whose steps on embedding tables cost less, with TensorFlow's slots and results.

TensorFlow's op for a sparse step walks the table row by row; gathering the touched rows, computing
on all of them at once and writing them back is up to twice as fast. What is learned and what the
checkpoint holds is the same (a test holds the two together), so either can go on from the other's
checkpoint.

Reading and writing are two ops here. Where other processes write the same table in between (a
variable on a parameter server), one's step could undo another's, so there TensorFlow's own op is
used.
"""

from __future__ import annotations

import tensorflow as tf


class AdagradOptimizer(tf.compat.v1.train.AdagradOptimizer):
    """`tf.compat.v1.train.AdagradOptimizer`, whose arguments it takes (Duchi et al., JMLR 2011).

    A step on a row w with the gradient g and its accumulator a (0.1 at first):
    a += g^2, then w -= rate * g / sqrt(a). With rate 1, g = 3 and a = 0.1, w falls by
    3 / sqrt(9.1) = 0.9945.
    """

    def _resource_apply_sparse(
        self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        """The base class calls it with each row once: gradients of a row are added up before."""
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
    """Overwrites rows of a resource variable; each may be there once."""
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=indices, updates=rows)
