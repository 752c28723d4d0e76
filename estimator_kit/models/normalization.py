"""Normalizations and activations of layers, with plain variables and without Keras.

Batch and layer normalization create `gamma` (ones) and `beta` (zeros), float32 [units], in the
scope of their name.

Parameters of models name the activations:

    elu, gelu, leaky_relu, linear, prelu, relu, relu6, selu, sigmoid, softplus, softsign, swish,
    tanh

`prelu` is max(x, 0) + alpha min(x, 0). It learns one alpha per unit, which starts at 0.25 (He et
al., ICCV 2015) and is the variable `alpha` in the scope of the layer. The other activations are
functions of TensorFlow without variables. `swish` is x sigmoid(x), and `linear` returns x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import pydantic
import tensorflow as tf

from estimator_kit.optimizers import freezing
from feature_specs.errors import did_you_mean

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


def prelu(x: tf.Tensor) -> tf.Tensor:
    """max(x, 0) + alpha min(x, 0), with alpha float32 [units]. At the start, -2 becomes -0.5."""
    alpha = tf.compat.v1.get_variable(
        "alpha", [x.shape[-1]], initializer=tf.compat.v1.constant_initializer(0.25)
    )
    return tf.maximum(x, 0.0) + alpha * tf.minimum(x, 0.0)


ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "elu": tf.nn.elu,
    "gelu": tf.nn.gelu,
    "leaky_relu": tf.nn.leaky_relu,
    "linear": tf.identity,
    "prelu": prelu,
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "selu": tf.nn.selu,
    "sigmoid": tf.sigmoid,
    "softplus": tf.math.softplus,
    "softsign": tf.math.softsign,
    "swish": tf.nn.silu,
    "tanh": tf.tanh,
}


def _checked_activation(name: str) -> str:
    if name not in ACTIVATIONS:
        raise ValueError(f"expected an activation{did_you_mean(name, ACTIVATIONS)}")
    return name


# The name of an activation. It is checked when a model is made.
Activation = Annotated[str, pydantic.AfterValidator(_checked_activation)]
