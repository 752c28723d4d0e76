"""Adagrad with faster steps on embedding tables, with TensorFlow's slots and results.

TensorFlow's op for a sparse step updates one row after the other. Gathering the rows of the batch,
updating all of them at once and writing them back is up to twice as fast. The results and the
checkpoint are the same (a test compares them), so each can continue from the other's checkpoint.

Reading and writing are two ops here. If other processes write the same table in between, as on a
parameter server, one step could undo another. There, TensorFlow's own op is used.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.optimizers.summed_rows import SummedRows


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
