"""Layers of the built-in models, on plain variables named as canned estimators name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import tensorflow as tf


def dense_layer(
    inputs: tf.Tensor,
    units: int,
    name: str,
    activation: Optional[Callable[[tf.Tensor], tf.Tensor]] = None,
) -> tf.Tensor:
    """`activation(inputs @ kernel + bias)`: float32 [rows, units] from float32 [rows, n].

    The kernel starts Glorot-uniform (Glorot & Bengio, AISTATS 2010), the bias at zero.
    """
    with tf.compat.v1.variable_scope(name):
        kernel = tf.compat.v1.get_variable(
            "kernel",
            [inputs.shape[1], units],
            initializer=tf.compat.v1.glorot_uniform_initializer(),
        )
        bias = tf.compat.v1.get_variable(
            "bias", [units], initializer=tf.compat.v1.zeros_initializer()
        )
    outputs = inputs @ kernel + bias
    return outputs if activation is None else activation(outputs)


def dnn_logits(
    inputs: tf.Tensor,
    hidden_units: tuple[int, ...],
    logits_dimension: int,
    *,
    dropout: float = 0.0,
) -> tf.Tensor:
    """Hidden ReLU layers and a linear one: float32 [rows, logits_dimension].

    Args:
      dropout: share of hidden units set to zero; pass 0 outside training.
    """
    hidden = inputs
    for i, units in enumerate(hidden_units):
        hidden = dense_layer(hidden, units, f"hiddenlayer_{i}", tf.nn.relu)
        if dropout:
            hidden = tf.nn.dropout(hidden, rate=dropout)
    return dense_layer(hidden, logits_dimension, "logits")
