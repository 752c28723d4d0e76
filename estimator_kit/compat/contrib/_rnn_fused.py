"""An LSTM over whole sequences: LSTMBlockFusedCell.

Inputs are [time, batch, depth], or a list with one [batch, depth] for each step; outputs have the
same form. The operation BlockLSTM of TensorFlow computes the LSTM, on CPUs and GPUs.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gen_rnn_ops, rnn_grad  # noqa: F401  # registers the gradient

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
        self._settings = {
            "forget_bias": forget_bias,
            "cell_clip": -1.0 if cell_clip is None else cell_clip,
            "use_peephole": use_peephole,
        }

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(inputs, list):
            return super().__call__(inputs, *args, **kwargs)
        outputs, state = super().__call__(tf.stack(inputs), *args, **kwargs)
        return tf.unstack(outputs, num=len(inputs)), state

    def build(self, input_shape: Any) -> None:
        depth = tf.TensorShape(input_shape).with_rank(3)[-1]
        depth = getattr(depth, "value", depth)
        if depth is None:
            raise ValueError(f"{self.name}: the last dimension must be known, got {input_shape}")
        width = 4 * self.num_units
        self._kernel = self.add_weight("kernel", [depth + self.num_units, width])
        self._bias = self.add_weight("bias", [width], initializer=tf.zeros_initializer())
        self._peepholes: list[Any] = []
        if self._settings["use_peephole"]:
            self._peepholes = [
                self.add_weight(f"w_{gate}_diag", [self.num_units]) for gate in "ifo"
            ]
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
        no_peephole = tf.zeros([self.num_units], inputs.dtype)
        wci, wcf, wco = self._peepholes or [no_peephole] * 3
        steps = tf.shape(inputs)[0] if lengths is None else tf.reduce_max(lengths)
        computed = gen_rnn_ops.block_lstm(
            seq_len_max=tf.cast(steps, tf.int64),
            x=inputs,
            cs_prev=cell,
            h_prev=output,
            w=self._kernel,
            wci=wci,
            wcf=wcf,
            wco=wco,
            b=self._bias,
            **self._settings,
        )
        cells, outputs = computed.cs, computed.h
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
