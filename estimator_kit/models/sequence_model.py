"""Models over the steps of a row: their base, `gru` and `lstm`.

Steps are float32 [rows, steps, width], padded at the end of each row. `lengths`, int64 [rows], has
the number of real steps. The results do not depend on the values or the number of padded steps.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar, Literal, Optional

import tensorflow as tf

from estimator_kit.model import group_checks
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import Group, OptionalGroup
from estimator_kit.models.dnn import DNNParams, Dropout, HiddenUnits, tower_logits
from estimator_kit.models.layers import dense_layer
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines.transform.transforms import Features

Pooling = Literal["last", "max", "mean", "sum"]


def step_mask(steps: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """True for real steps and False for padding: bool [rows, steps, 1]."""
    return tf.sequence_mask(lengths, tf.shape(steps)[1])[:, :, tf.newaxis]


def pool_steps(steps: tf.Tensor, lengths: tf.Tensor, pooling: Pooling) -> tf.Tensor:
    """The last, the largest, the mean or the sum of each row's steps: float32 [rows, width].

    A row without steps gets zeros. The steps 1, 5 and 3 of width 1 give 3, 5, 3 and 9.
    """
    mask = step_mask(steps, lengths)
    masked_steps = tf.where(mask, steps, tf.zeros_like(steps))
    if pooling == "max":
        largest = tf.reduce_max(tf.where(mask, steps, steps.dtype.min * tf.ones_like(steps)), 1)
        return tf.where(lengths[:, tf.newaxis] > 0, largest, tf.zeros_like(largest))
    if pooling == "last":
        last = tf.one_hot(lengths - 1, tf.shape(steps)[1])
        return tf.einsum("ns,nsw->nw", last, masked_steps)
    total = tf.reduce_sum(masked_steps, axis=1)
    if pooling == "sum":
        return total
    return tf.math.divide_no_nan(total, tf.cast(lengths, tf.float32)[:, tf.newaxis])


class SequenceParams(DNNParams):
    """Attributes:
    steps_group: the group of sequence columns.
    deep_group: the group that the DNN reads in addition to the steps. None reads only the steps.
    steps_dropout: the share of the inputs of each layer over steps that training sets to zero.
      `dropout` applies to the DNN.
    pooling: how the outputs of all steps become one vector: `last`, `max`, `mean` or `sum`.
    """

    steps_group: Group = "steps"
    deep_group: OptionalGroup = "deep"
    steps_dropout: Dropout = 0.0
    pooling: Pooling = "mean"


class SequenceModel(ModelFn):
    """A model over steps. Override `encode`.

    A subclass makes the vector in `encode`. The DNN reads this vector and the columns of the deep
    group.
    """

    Params = SequenceParams

    @abc.abstractmethod
    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        """float32 [rows, n] from steps [rows, 1 or more, width] and their number [rows]."""

    def check_spec(self) -> None:
        group_checks.check_sequence_group(self.spec, self.params.steps_group)
        if self.params.deep_group is not None:
            group_checks.check_dense_group(self.spec, self.params.deep_group)

    def groups(self) -> tuple[str, ...]:
        group_names = (self.params.steps_group, self.params.deep_group)
        return tuple(group for group in group_names if group is not None)

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("steps"):
            steps, lengths = self.sequence_input(features, self.params.steps_group)
            parts = [self.encode(steps, lengths, mode)]
        with tf.compat.v1.variable_scope("dnn"):
            if self.params.deep_group is not None:
                parts.insert(0, self.dense_input(features, self.params.deep_group))
            return tower_logits(tf.concat(parts, 1), self.params, mode, self.logits_dimension)

    def drop(self, steps: tf.Tensor, mode: str) -> tf.Tensor:
        """Applies `steps_dropout` in training."""
        rate = self.params.steps_dropout
        return tf.nn.dropout(steps, rate=rate) if rate and mode == ModeKeys.TRAIN else steps


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

    def step(
        states: tuple[tf.Tensor, ...], step_input: tuple[tf.Tensor, ...]
    ) -> tuple[tf.Tensor, ...]:
        x, is_step = step_input
        return tuple(tf.where(is_step, new, old) for new, old in zip(cell(states, x), states))

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
    """GRU layers over the steps of a group, pooling of their states, and a DNN.

    The GRU is from Cho et al., EMNLP 2014, in the form of cuDNN with one product per step:

        r = sigmoid(W_r x + U_r h + b_r)        z = sigmoid(W_z x + U_z h + b_z)
        c = tanh(W_c x + b_c + r * (U_c h + d))
        h' = z * h + (1 - z) * c

    The LSTM is from Hochreiter & Schmidhuber, Neural Computation 1997, with a forget gate:

        i, f, o = sigmoid(W x + U h + b), with 1 added inside f (Jozefowicz et al., ICML 2015)
        c' = f * c + i * tanh(W_c x + U_c h + b_c)        h' = o * tanh(c')

    With an attention a of [0, 1] to each step, the GRU is the AUGRU of Zhou et al., AAAI 2019. A
    step changes the state the less, the lower its attention is: z becomes 1 - a (1 - z).

    The layer multiplies the inputs of all steps at once. A TensorFlow loop computes the states.
    Padded steps do not change the state of a row.
    """

    Params = _RecurrentParams
    layer: ClassVar[Callable[..., tf.Tensor]] = staticmethod(gru_layer)

    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        for i, units in enumerate(self.params.recurrent_units):
            steps = self.layer(self.drop(steps, mode), lengths, units, f"layer_{i}")
        return pool_steps(steps, lengths, self.params.pooling)


class LSTMModel(GRUModel):
    """LSTM layers over the steps of a group, pooling of their states, and a DNN."""

    layer = staticmethod(lstm_layer)
