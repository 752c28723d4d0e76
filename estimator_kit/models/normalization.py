"""Batch and layer normalization with plain variables, without Keras.

Both create `gamma` (ones) and `beta` (zeros), float32 [units], in the scope of their name.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.optimizers import freezing

BATCH_EPSILON = 1e-3
LAYER_EPSILON = 1e-6


def batch_norm(
    inputs: tf.Tensor, name: str, *, training: bool, momentum: float = 0.99
) -> tf.Tensor:
    """gamma (x - mean) / sqrt(variance + 0.001) + beta, over the rows of a batch.

    Ioffe & Szegedy, ICML 2015. In training, mean and variance come from the batch. The averages
    `moving_mean` and `moving_variance` move towards them by 1 - momentum. The ops for this are in
    the graph's UPDATE_OPS, which `minimize` runs. Outside training, the averages are used, so that
    a prediction does not depend on the other rows of its batch. A layer that `freeze` names uses
    them in training, too, and does not change them.

    Args:
      inputs: float32 [rows, units].
      name: the name of the scope. Canned estimators use `batchnorm_0` in `hiddenlayer_0`.
      training: whether to use the statistics of the batch.
      momentum: the momentum of the averages. With 0.99 they forget their start values after about
        500 steps. Canned estimators use 0.999, so that evaluations in the first few thousand steps
        are still affected by the start values.
    """
    v1, units = tf.compat.v1, inputs.shape[1]
    zeros, ones = v1.zeros_initializer(), v1.ones_initializer()
    with v1.variable_scope(name):
        gamma = v1.get_variable("gamma", [units], initializer=ones)
        beta = v1.get_variable("beta", [units], initializer=zeros)
        averages = [
            v1.get_variable(
                average,
                [units],
                initializer=initializer,
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.MEAN,
            )
            for average, initializer in (("moving_mean", zeros), ("moving_variance", ones))
        ]
        kept = freezing.keeps_averages(
            _names("moving_mean", "moving_variance"), _names("gamma", "beta")
        )
    if not training or kept:
        mean, variance = (tf.convert_to_tensor(average) for average in averages)
    else:
        mean, variance = tf.nn.moments(inputs, axes=[0])
        for average, value in zip(averages, (mean, variance)):
            update = average.assign_sub((average - value) * (1 - momentum), read_value=False)
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, BATCH_EPSILON)


def _names(*variables: str) -> list[str]:
    """The full names of variables in the current scope."""
    scope = tf.compat.v1.get_variable_scope().name
    return [f"{scope}/{variable}" for variable in variables]


def layer_norm(inputs: tf.Tensor, name: str) -> tf.Tensor:
    """gamma (x - mean) / sqrt(variance + 1e-6) + beta, over the units of each row.

    Ba, Kiros & Hinton, 2016. It is the same in training and prediction: float32 [..., units].
    """
    v1, units = tf.compat.v1, inputs.shape[-1]
    with v1.variable_scope(name):
        gamma = v1.get_variable("gamma", [units], initializer=v1.ones_initializer())
        beta = v1.get_variable("beta", [units], initializer=v1.zeros_initializer())
    mean, variance = tf.nn.moments(inputs, axes=[-1], keepdims=True)
    return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, LAYER_EPSILON)
