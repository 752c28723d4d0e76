"""Layers of the built-in models, on plain variables named as canned estimators name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.models.activations import ACTIVATIONS
from estimator_kit.models.initializers import make_initializer
from estimator_kit.models.normalization import batch_norm as batch_norm_layer
from estimator_kit.models.normalization import layer_norm as layer_norm_layer
from estimator_kit.models.regularizers import Regularizer, make_regularizer


def dense_layer(
    inputs: tf.Tensor,
    units: int,
    name: str,
    activation: Optional[Callable[[tf.Tensor], tf.Tensor]] = None,
    *,
    use_bias: bool = True,
    initializer: Optional[Any] = None,
    regularizer: Optional[Regularizer] = None,
) -> tf.Tensor:
    """`activation(inputs @ kernel + bias)`: float32 [..., units] from float32 [..., n].

    The kernel starts Glorot-uniform (Glorot & Bengio, AISTATS 2010), the bias at zero.

    Args:
      activation: a function of a tensor, such as `tf.nn.relu`; None for a linear layer.
      use_bias: false leaves the bias out.
      initializer: of the kernel, an entry of `initializers.Initializer`.
      regularizer: of the kernel.
    """
    with tf.compat.v1.variable_scope(name):
        kernel = tf.compat.v1.get_variable(
            "kernel",
            [inputs.shape[-1], units],
            initializer=make_initializer(initializer),
            regularizer=make_regularizer(regularizer),
        )
        outputs = tf.tensordot(inputs, kernel, 1) if inputs.shape.rank != 2 else inputs @ kernel
        if use_bias:
            outputs += tf.compat.v1.get_variable(
                "bias", [units], initializer=tf.compat.v1.zeros_initializer()
            )
        return outputs if activation is None else activation(outputs)


def hidden_layers(
    inputs: tf.Tensor,
    hidden_units: Sequence[int],
    *,
    training: bool = False,
    dropout: float = 0.0,
    activation: str = "relu",
    batch_norm: bool = False,
    batch_norm_momentum: float = 0.99,
    layer_norm: bool = False,
    residual: bool = False,
    initializer: Optional[Any] = None,
    regularizer: Optional[Regularizer] = None,
) -> tf.Tensor:
    """The hidden layers of a DNN: float32 [rows, last of hidden_units] from float32 [rows, n].

    Layer i, in the scope `hiddenlayer_i`, is x -> norm(dropout(activation(x W + b))), the order of
    canned estimators. With `residual` x itself is added to it (He et al., CVPR 2016), times a
    kernel `projection` where the layer changes the width.

    Args:
      training: whether dropout applies and batch normalization takes the batch's statistics.
      dropout: share of units set to zero in training, the others scaled up to keep the sum.
      activation: a name from `activations.ACTIVATIONS`.
      batch_norm, batch_norm_momentum: see `normalization.batch_norm`.
      layer_norm: see `normalization.layer_norm`.
      initializer, regularizer: of the kernels.
    """
    hidden = inputs
    for i, units in enumerate(hidden_units):
        before, name = hidden, f"hiddenlayer_{i}"
        hidden = dense_layer(
            hidden,
            units,
            name,
            ACTIVATIONS[activation],
            initializer=initializer,
            regularizer=regularizer,
        )
        if dropout and training:
            hidden = tf.nn.dropout(hidden, rate=dropout)
        with tf.compat.v1.variable_scope(name):
            if batch_norm:
                hidden = batch_norm_layer(
                    hidden, f"batchnorm_{i}", training=training, momentum=batch_norm_momentum
                )
            if layer_norm:
                hidden = layer_norm_layer(hidden, "layer_norm")
            if residual:
                if before.shape[-1] != units:
                    before = dense_layer(
                        before,
                        units,
                        "projection",
                        use_bias=False,
                        initializer=initializer,
                        regularizer=regularizer,
                    )
                hidden += before
    return hidden


def dnn_logits(
    inputs: tf.Tensor,
    hidden_units: Sequence[int],
    logits_dimension: int,
    *,
    dropout: float = 0.0,
    **options: Any,
) -> tf.Tensor:
    """Hidden layers, ReLU by default, and a linear one: float32 [rows, logits_dimension].

    Args:
      dropout: share of hidden units set to zero; pass 0 outside training.
      options: further arguments of `hidden_layers`, such as `activation="tanh"`,
        `layer_norm=True`, or `batch_norm=True` with `training`.
    """
    options = {"training": dropout > 0, **options}
    hidden = hidden_layers(inputs, hidden_units, dropout=dropout, **options)
    return dense_layer(hidden, logits_dimension, "logits")
