"""Streaming sums, the one state of all metrics of the kit.

Every metric is a function of sums over rows, so its value is the same however the rows are
batched. Sums are float64: a float32 one stops growing at 16 million. Under a distribution strategy
each replica adds its own rows and reading adds the replicas up.
"""

from __future__ import annotations

import tensorflow as tf

# A metric as `EstimatorSpec.eval_metric_ops` wants it: value and update op.
Metric = tuple[tf.Tensor, tf.Operation]


def streaming_sum(values: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
    """The float64 sum of a tensor over all batches so far, and the op that adds this batch.

    Args:
      values: a number or an array of fixed shape; summed elementwise over batches.
      name: of the variable that holds the sum.

    Returns:
      (total, update), both float64 of the shape of `values`.
    """
    total = tf.compat.v1.Variable(
        lambda: tf.zeros(values.shape, tf.float64),
        trainable=False,
        collections=[
            tf.compat.v1.GraphKeys.LOCAL_VARIABLES,
            tf.compat.v1.GraphKeys.METRIC_VARIABLES,
        ],
        validate_shape=True,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
        use_resource=True,
        name=name,
    )
    update = total.assign_add(tf.cast(values, tf.float64), read_value=True)
    return total.read_value(), update


def ratio(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    """numerator / denominator; NaN where the denominator is 0, as nothing was measured."""
    nan = tf.constant(float("nan"), numerator.dtype)
    return tf.where(tf.equal(denominator, 0), nan, tf.math.divide_no_nan(numerator, denominator))
