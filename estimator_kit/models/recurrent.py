"""The built-in models `gru` and `lstm`: recurrent layers over the steps of a sequence.

Cho et al., EMNLP 2014, in the form with one product a step that cuDNN computes:

    r = sigmoid(W_r x + U_r h + b_r)        z = sigmoid(W_z x + U_z h + b_z)
    c = tanh(W_c x + b_c + r * (U_c h + d))
    h' = z * h + (1 - z) * c

Hochreiter & Schmidhuber, Neural Computation 1997, with a forget gate:

    i, f, o = sigmoid(W x + U h + b), f with 1 added (Jozefowicz et al., ICML 2015)
    c' = f * c + i * tanh(W_c x + U_c h + b_c)        h' = o * tanh(c')

The inputs of all steps are multiplied at once; a loop of TensorFlow's does the rest. A step behind
the end of a row leaves its state as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from estimator_kit.models.dnn_params import HiddenUnits
from estimator_kit.models.layers import dense_layer
from estimator_kit.models.sequence_model import SequenceModel, SequenceParams
from estimator_kit.models.steps import Pooling, pool_steps, step_mask

# From the states, each [rows, units], and the gates' input of a step to the next states.
Cell = Callable[[tuple[tf.Tensor, ...], tf.Tensor], tuple[tf.Tensor, ...]]


def gru_layer(steps: tf.Tensor, lengths: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """The state h after each step: float32 [rows, steps, units]; see the module."""
    v1 = tf.compat.v1
    with v1.variable_scope(name):
        gates = dense_layer(steps, 3 * units, "input")
        kernel = _recurrent_kernel(units, 3)
        bias = v1.get_variable("recurrent_bias", [units], initializer=v1.zeros_initializer())

        def cell(states: tuple[tf.Tensor, ...], x: tf.Tensor) -> tuple[tf.Tensor, ...]:
            (h,) = states
            x_r, x_z, x_c = tf.split(x, 3, axis=1)
            h_r, h_z, h_c = tf.split(h @ kernel, 3, axis=1)
            r, z = tf.sigmoid(x_r + h_r), tf.sigmoid(x_z + h_z)
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
    """[units, gates * units], orthogonal (Saxe et al., ICLR 2014), which keeps states' length."""
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
    recurrent_units: units of the recurrent layers, from the steps on.
    pooling: the last state, by default; see `SequenceParams`.
    """

    recurrent_units: HiddenUnits = (64,)
    pooling: Pooling = "last"


class GRUModel(SequenceModel):
    """GRU layers over a sequence group, their states pooled, and a DNN."""

    Params = _RecurrentParams
    layer = staticmethod(gru_layer)

    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        for i, units in enumerate(self.params.recurrent_units):
            steps = self.layer(self.drop(steps, mode), lengths, units, f"layer_{i}")
        return pool_steps(steps, lengths, self.params.pooling)


class LSTMModel(GRUModel):
    """LSTM layers over a sequence group, their states pooled, and a DNN."""

    layer = staticmethod(lstm_layer)
