"""The layers of the built-in models, with variables named as in canned estimators.

Parameters of models name penalties on the weights of layers, such as `{l2: 0.0001}`:

    penalty = l1 sum |w| + l2 sum w^2

The sums are over the kernels of dense layers, without their biases. The penalty is a regularization
loss of the graph and becomes part of the model's loss. The weights 3 and -1 with l1 = 0.1 and l2 =
0.01 cost 0.4 + 0.1 = 0.5. Embedding tables have no such penalty, because it would update each row
of the table in every step. Their columns have `l2` for the vectors of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import pydantic
import tensorflow as tf

from estimator_kit.model.computing import product
from estimator_kit.models.initializers import make_initializer
from estimator_kit.models.normalization import ACTIVATIONS
from estimator_kit.models.normalization import batch_norm as batch_norm_layer
from estimator_kit.models.normalization import layer_norm as layer_norm_layer
from feature_specs.entry import Entry, NotNegativeFloat


class Regularizer(Entry):
    """The factors of the two penalties. At least one must be above 0."""

    l1: NotNegativeFloat = pydantic.Field(0.0, description="The factor of sum |w|.")
    l2: NotNegativeFloat = pydantic.Field(0.0, description="The factor of sum w^2.")

    @pydantic.model_validator(mode="after")
    def _check(self) -> Regularizer:
        if not self.l1 and not self.l2:
            raise ValueError("set l1, l2 or both above 0, or remove the regularizer")
        return self


def make_regularizer(entry: Optional[Regularizer]) -> Optional[Callable[[tf.Tensor], tf.Tensor]]:
    """The penalty of weights as a float32 scalar, for `get_variable`. None for None."""
    if entry is None:
        return None
    l1, l2 = entry.l1, entry.l2

    def penalty(weights: tf.Tensor) -> tf.Tensor:
        return l1 * tf.reduce_sum(tf.abs(weights)) + l2 * tf.reduce_sum(tf.square(weights))

    return penalty


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

    By default, the kernel starts Glorot-uniform (Glorot & Bengio, AISTATS 2010) and the bias at
    zero.

    Args:
      inputs: float32 [..., n].
      units: the number of outputs.
      name: the variable scope of the layer.
      activation: a function of a tensor, such as `tf.nn.relu`. None makes a linear layer.
      use_bias: whether the layer has a bias.
      initializer: the initializer of the kernel, an entry of `initializers.Initializer`.
      regularizer: the penalty on the kernel.
    """
    with tf.compat.v1.variable_scope(name):
        kernel = tf.compat.v1.get_variable(
            "kernel",
            [inputs.shape[-1], units],
            initializer=make_initializer(initializer),
            regularizer=make_regularizer(regularizer),
        )
        outputs = product(inputs, kernel)
        if use_bias:
            bias = tf.compat.v1.get_variable(
                "bias", [units], initializer=tf.compat.v1.zeros_initializer()
            )
            # bias_add has the smaller gradient, but takes neither one row nor 2^31 numbers.
            is_matrix = outputs.shape.rank == 2
            outputs = tf.nn.bias_add(outputs, bias) if is_matrix else outputs + bias
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

    Layer i, in the scope `hiddenlayer_i`, computes norm(dropout(activation(x W + b))), in the order
    of canned estimators. With `residual`, it also adds its input x (He et al., CVPR 2016). If the
    layer changes the width, x is first multiplied by a kernel `projection`.

    Args:
      inputs: float32 [rows, n].
      hidden_units: the number of units of each layer.
      training: whether to apply dropout, and to use the statistics of the batch in batch
        normalization.
      dropout: the share of units that training sets to zero. The remaining units are scaled up to
        keep the sum.
      activation: a name from `activations.ACTIVATIONS`.
      batch_norm, batch_norm_momentum: see `normalization.batch_norm`.
      layer_norm: whether to apply `normalization.layer_norm`.
      residual: whether to add the input of each layer.
      initializer, regularizer: the initializer of the kernels and the penalty on them.
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
    """Hidden layers, by default with ReLU, and a linear layer: float32 [rows, logits_dimension].

    Args:
      inputs: float32 [rows, n].
      hidden_units: the number of units of each hidden layer.
      logits_dimension: the number of outputs.
      dropout: the share of hidden units that are set to zero. Pass 0 outside training.
      options: more arguments of `hidden_layers`, such as `activation="tanh"`, `layer_norm=True`,
        or `batch_norm=True` with `training`.
    """
    options = {"training": dropout > 0, **options}
    hidden = hidden_layers(inputs, hidden_units, dropout=dropout, **options)
    return dense_layer(hidden, logits_dimension, "logits")
