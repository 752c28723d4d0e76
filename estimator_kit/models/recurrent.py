"""The built-in models `gru` and `lstm`: recurrent layers over the steps of a sequence.

The GRU is from Cho et al., EMNLP 2014, in the form of cuDNN with one product per step:

    r = sigmoid(W_r x + U_r h + b_r)        z = sigmoid(W_z x + U_z h + b_z)
    c = tanh(W_c x + b_c + r * (U_c h + d))
    h' = z * h + (1 - z) * c

The LSTM is from Hochreiter & Schmidhuber, Neural Computation 1997, with a forget gate:

    i, f, o = sigmoid(W x + U h + b), with 1 added inside f (Jozefowicz et al., ICML 2015)
    c' = f * c + i * tanh(W_c x + U_c h + b_c)        h' = o * tanh(c')

With an attention a of [0, 1] to each step, the GRU is the AUGRU of Zhou et al., AAAI 2019. A step
changes the state the less, the lower its attention is: z becomes 1 - a (1 - z).

The layer multiplies the inputs of all steps at once. A TensorFlow loop computes the states. Padded
steps do not change the state of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Optional

import tensorflow as tf

from estimator_kit.models.dnn_params import HiddenUnits
from estimator_kit.models.layers import dense_layer
from estimator_kit.models.sequence_model import SequenceModel, SequenceParams
from estimator_kit.models.steps import Pooling, pool_steps, step_mask

# Maps the states, each [rows, units], and the input of the gates at a step to the next states.
Cell = Callable[[tuple[tf.Tensor, ...], tf.Tensor], tuple[tf.Tensor, ...]]


def gru_layer(
    steps: tf.Tensor,
    lengths: tf.Tensor,
    units: int,
    name: str,
    *,
    attention: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """The state h after each step: float32 [rows, steps, units]; see the module.

    Args:
      steps: float32 [rows, steps, width]; lengths: int64 [rows].
      units: the number of units of the state.
      name: the variable scope of the layer.
      attention: how much each step may change the state, float32 [rows, steps, 1] in [0, 1]. None
        is 1 everywhere.
    """
    v1 = tf.compat.v1
    sizes = [units] * 3 + ([] if attention is None else [1])
    with v1.variable_scope(name):
        gates = dense_layer(steps, 3 * units, "input")
        if attention is not None:
            gates = tf.concat([gates, attention], axis=2)
        kernel = _recurrent_kernel(units, 3)
        bias = v1.get_variable("recurrent_bias", [units], initializer=v1.zeros_initializer())

        def cell(states: tuple[tf.Tensor, ...], x: tf.Tensor) -> tuple[tf.Tensor, ...]:
            (h,) = states
            x_r, x_z, x_c, *a = tf.split(x, sizes, axis=1)
            h_r, h_z, h_c = tf.split(h @ kernel, 3, axis=1)
            r, z = tf.sigmoid(x_r + h_r), tf.sigmoid(x_z + h_z)
            if a:
                z = 1 - a[0] * (1 - z)
            return (z * h + (1 - z) * tf.tanh(x_c + r * (h_c + bias)),)

        return _run(cell, 1, gates, lengths, units)


def lstm_layer(steps: tf.Tensor, lengths: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """The state h after each step: float32 [rows, steps, units]; see the module."""
    with tf.compat.v1.variable_scope(name):
        gates = dense_layer(steps, 4 * units, "input")
        kernel = _recurrent_kernel(units, 4)

        def cell(states: tuple[tf.Tensor, ...], x: tf.Tensor) -> tuple[tf.Tensor, ...]:
            h, c = states
            i, f, new, o = tf.split(x + h @ kernel, 4, axis=1)
            c = tf.sigmoid(f + 1) * c + tf.sigmoid(i) * tf.tanh(new)
            return tf.sigmoid(o) * tf.tanh(c), c

        return _run(cell, 2, gates, lengths, units)


def _recurrent_kernel(units: int, gates: int) -> tf.Tensor:
    """[units, gates * units]. Orthogonal (Saxe et al., ICLR 2014), which keeps the states' norm."""
    v1 = tf.compat.v1
    return v1.get_variable(
        "recurrent_kernel", [units, gates * units], initializer=v1.orthogonal_initializer()
    )


def _run(cell: Cell, count: int, gates: tf.Tensor, lengths: tf.Tensor, units: int) -> tf.Tensor:
    zeros = tf.zeros([tf.shape(gates)[0], units])

    def step(states: tuple[tf.Tensor, ...], given: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        x, there = given
        return tuple(tf.where(there, new, old) for new, old in zip(cell(states, x), states))

    by_step = (
        tf.transpose(gates, [1, 0, 2]),
        tf.transpose(step_mask(gates, lengths), [1, 0, 2]),
    )
    states = tf.scan(step, by_step, initializer=(zeros,) * count)
    outputs = tf.transpose(states[0], [1, 0, 2])
    outputs.set_shape([None, None, units])
    return outputs


class _RecurrentParams(SequenceParams):
    """Attributes:
    recurrent_units: the number of units of each recurrent layer, starting at the steps.
    pooling: how the states of all steps become one vector: `last`, `max`, `mean` or `sum`.
    """

    recurrent_units: HiddenUnits = (64,)
    pooling: Pooling = "last"


class GRUModel(SequenceModel):
    """GRU layers over the steps of a group, pooling of their states, and a DNN."""

    Params = _RecurrentParams
    layer: ClassVar[Callable[..., tf.Tensor]] = staticmethod(gru_layer)

    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        for i, units in enumerate(self.params.recurrent_units):
            steps = self.layer(self.drop(steps, mode), lengths, units, f"layer_{i}")
        return pool_steps(steps, lengths, self.params.pooling)


class LSTMModel(GRUModel):
    """LSTM layers over the steps of a group, pooling of their states, and a DNN."""

    layer = staticmethod(lstm_layer)
