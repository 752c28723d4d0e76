"""The operation BlockLSTM, with the variables that its cells of tf.contrib.rnn share.

The columns of `kernel` [depth + units, 4 * units] are the input gate, the new value, the forget
gate and the output gate. With peepholes there are also `w_i_diag`, `w_f_diag` and `w_o_diag`.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gen_rnn_ops, rnn_grad  # noqa: F401  # registers the gradient


class BlockLSTM:
    """The settings of the operation and, after `build`, its variables.

    Args:
      units: the size of the state.
      forget_bias: is added to the forget gate.
      cell_clip: clips the cell's state; None does not.
      use_peephole: gates also see the cell's state.
    """

    def __init__(
        self, units: int, forget_bias: float, cell_clip: Optional[float], use_peephole: bool
    ) -> None:
        self._units, self._use_peephole = units, use_peephole
        self._settings = {
            "forget_bias": forget_bias,
            "cell_clip": -1.0 if cell_clip is None else cell_clip,
            "use_peephole": use_peephole,
        }

    def build(self, layer: Any, inputs_shape: Any, depth: Any) -> None:
        """Makes the variables of `layer`; `depth` is the last dimension of its inputs.

        Raises:
          ValueError: the last dimension of the inputs is not known.
        """
        depth = getattr(depth, "value", depth)  # A Dimension with the shapes of TensorFlow 1.
        if depth is None:
            raise ValueError(f"{layer.name}: the last dimension must be known, got {inputs_shape}")
        units = self._units
        self._kernel = layer.add_weight("kernel", [depth + units, 4 * units])
        self._bias = layer.add_weight("bias", [4 * units], initializer=tf.zeros_initializer())
        self._peepholes: list[Any] = []
        if self._use_peephole:
            self._peepholes = [layer.add_weight(f"w_{gate}_diag", [units]) for gate in "ifo"]

    def run(self, inputs: Any, steps: Any, cell: Any, output: Any) -> tuple[Any, Any]:
        """The cell states and the outputs [time, batch, units] of `steps` steps.

        Args:
          inputs: [time, batch, depth].
          cell, output: the state before the first step, [batch, units].
        """
        no_peephole = tf.zeros([self._units], inputs.dtype)
        wci, wcf, wco = self._peepholes or [no_peephole] * 3
        computed = gen_rnn_ops.block_lstm(
            seq_len_max=steps,
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
        return computed.cs, computed.h
