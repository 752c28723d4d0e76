"""An LSTM over whole sequences: LSTMBlockFusedCell.

Inputs are [time, batch, depth], or a list with one [batch, depth] for each step; outputs have the
same form. The operation BlockLSTM of TensorFlow computes the LSTM, on CPUs and GPUs.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from ._block_lstm import BlockLSTM

LSTMStateTuple = tf.nn.rnn_cell.LSTMStateTuple


class LSTMBlockFusedCell(tf.layers.Layer):
    """An LSTM over whole sequences, with the variables `kernel` and `bias`.

    The columns of `kernel` [depth + units, 4 * units] are the input gate, the new value, the forget
    gate and the output gate, as in `tf.nn.rnn_cell.LSTMCell`. `forget_bias` is added to the forget
    gate. See http://arxiv.org/abs/1409.2329.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: Optional[float] = None,
        use_peephole: bool = False,
        reuse: Optional[bool] = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self.num_units = num_units
        self._lstm = BlockLSTM(num_units, forget_bias, cell_clip, use_peephole)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(inputs, list):
            return super().__call__(inputs, *args, **kwargs)
        outputs, state = super().__call__(tf.stack(inputs), *args, **kwargs)
        return tf.unstack(outputs, num=len(inputs)), state

    def build(self, input_shape: Any) -> None:
        self._lstm.build(self, input_shape, tf.TensorShape(input_shape).with_rank(3)[-1])
        self.built = True

    def call(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
    ) -> Any:
        if initial_state is None:
            if dtype is None:
                raise ValueError(f"{self.name}: expected initial_state or dtype, got neither")
            zeros = tf.zeros([tf.shape(inputs)[1], self.num_units], dtype)
            initial_state = (zeros, zeros)
        return self._run(inputs, initial_state, sequence_length)

    def _run(self, inputs: Any, initial_state: Any, lengths: Any) -> Any:
        cell, output = initial_state
        steps = tf.shape(inputs)[0] if lengths is None else tf.reduce_max(lengths)
        cells, outputs = self._lstm.run(inputs, tf.cast(steps, tf.int64), cell, output)
        if lengths is None:
            return outputs, LSTMStateTuple(cells[-1], outputs[-1])
        lengths = tf.cast(lengths, tf.int32)
        mask = tf.sequence_mask(lengths, tf.shape(inputs)[0], dtype=outputs.dtype)
        outputs *= tf.expand_dims(tf.transpose(mask), -1)
        last = tf.stack([lengths, tf.range(tf.shape(lengths)[0])], axis=1)
        # A sequence without steps keeps its initial state, which stands before the first step.
        states = (
            tf.gather_nd(tf.concat([[first], rest], 0), last)
            for first, rest in ((cell, cells), (output, outputs))
        )
        return outputs, LSTMStateTuple(*states)
