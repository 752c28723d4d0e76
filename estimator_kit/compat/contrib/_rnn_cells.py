"""Cells of tf.contrib.rnn that TensorFlow 2 does not have: LSTMBlockCell, LayerNormBasicLSTMCell.

Names of variables and the order of the gates are as in TensorFlow 1.15.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from ._block_lstm import BlockLSTM

LSTMStateTuple = tf.nn.rnn_cell.LSTMStateTuple
# Not public; the base of BasicLSTMCell.
LayerRNNCell: Any = tf.nn.rnn_cell.BasicLSTMCell.__mro__[1]


class LSTMBlockCell(LayerRNNCell):
    """An LSTM cell whose step is one operation, BlockLSTM.

    It has LSTMCell's variables: `kernel` and `bias`, and `w_i_diag`, `w_f_diag`, `w_o_diag`
    with peepholes.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: Optional[float] = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: Optional[bool] = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._num_units = num_units
        self._lstm = BlockLSTM(num_units, forget_bias, cell_clip, use_peephole)

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        return self._num_units

    def build(self, inputs_shape: Any) -> None:
        self._lstm.build(self, inputs_shape, tf.TensorShape(inputs_shape)[-1])
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        # LSTMBlockCell, the operation for one step, has no gradient in TensorFlow 2.
        cells, outputs = self._lstm.run(
            tf.expand_dims(inputs, 0), tf.constant(1, tf.int64), state[0], state[1]
        )
        cell, output = cells[0], outputs[0]
        return output, LSTMStateTuple(cell, output)


class LayerNormBasicLSTMCell(tf.nn.rnn_cell.RNNCell):
    """An LSTM cell with layer normalization and recurrent dropout.

    See https://arxiv.org/abs/1607.06450 and https://arxiv.org/abs/1603.05118.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Callable[[Any], Any] = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: Optional[int] = None,
        reuse: Optional[bool] = None,
    ) -> None:
        """`input_size` is accepted and ignored, as in TensorFlow 1.15."""
        super().__init__(_reuse=reuse)
        self._num_units, self._activation = num_units, activation
        self._forget_bias, self._layer_norm = forget_bias, layer_norm
        self._gain, self._shift = norm_gain, norm_shift
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> Any:
        both = tf.concat([inputs, state[1]], 1)
        width = 4 * self._num_units
        gates = tf.matmul(both, tf.get_variable("kernel", [both.shape[1], width], both.dtype))
        if not self._layer_norm:
            gates += tf.get_variable("bias", [width], both.dtype)
        parts = tf.split(gates, 4, axis=1)
        names = ("input", "transform", "forget", "output")
        i, j, f, o = (self._norm(part, name) for part, name in zip(parts, names))
        new = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            new = tf.nn.dropout(new, rate=1 - self._keep_prob, seed=self._seed)
        cell = state[0] * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * new
        cell = self._norm(cell, "state")
        output = self._activation(cell) * tf.sigmoid(o)
        return output, LSTMStateTuple(cell, output)

    def _norm(self, values: Any, scope: str) -> Any:
        if not self._layer_norm:
            return values
        with tf.variable_scope(scope):
            made = [
                tf.get_variable(
                    name, [self._num_units], values.dtype, tf.constant_initializer(start)
                )
                for name, start in (("gamma", self._gain), ("beta", self._shift))
            ]
        mean, variance = tf.nn.moments(values, [-1], keep_dims=True)
        return tf.nn.batch_normalization(values, mean, variance, made[1], made[0], 1e-12)
