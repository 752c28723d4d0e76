"""The activations of layers, as parameters of models name them.

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

from feature_specs.errors import did_you_mean


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


def _known(name: str) -> str:
    if name not in ACTIVATIONS:
        raise ValueError(f"expected an activation{did_you_mean(name, ACTIVATIONS)}")
    return name


# The name of an activation. It is checked when a model is made.
Activation = Annotated[str, pydantic.AfterValidator(_known)]
