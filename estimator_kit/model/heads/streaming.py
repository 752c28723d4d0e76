"""Streaming sums, the only state of the kit's metrics.

Every metric is a function of sums over rows, so its value does not depend on the batches. The sums
are float64, because a float32 sum stops growing at 16 million. With a distribution strategy, each
replica adds its own rows, and reading a sum adds up the replicas.
"""

from __future__ import annotations

import tensorflow as tf

# A metric in the form of `EstimatorSpec.eval_metric_ops`: value and update op.
Metric = tuple[tf.Tensor, tf.Operation]


def streaming_sum(values: tf.Tensor, name: str) -> tuple[tf.Tensor, tf.Tensor]:
    """The float64 sum of a tensor over all batches so far, and the op that adds this batch.

    Args:
      values: a number or an array of fixed shape. It is summed elementwise over batches.
      name: the name of the variable with the sum.

    Returns:
      (total, update), both float64 in the shape of `values`.
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


def also_updating(metrics: dict[str, Metric], update: tf.Operation) -> dict[str, Metric]:
    """The same metrics; updating `loss`, which every objective has, makes another update, too."""
    value, own = metrics["loss"]
    return {**metrics, "loss": (value, tf.group(own, update))}


def ratio(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    """numerator / denominator, or NaN if the denominator is 0."""
    nan = tf.constant(float("nan"), numerator.dtype)
    return tf.where(tf.equal(denominator, 0), nan, tf.math.divide_no_nan(numerator, denominator))
