"""tf.contrib.rnn: cells and recurrent networks.

The common cells and functions come from `tf.nn`. `_rnn_cells.py`, `_rnn_fused.py` and
`_rnn_stacks.py` have more. Rare cells are not here.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from . import _sources
from ._rnn_cells import LayerNormBasicLSTMCell as LayerNormBasicLSTMCell
from ._rnn_cells import LayerRNNCell as LayerRNNCell
from ._rnn_cells import LSTMBlockCell as LSTMBlockCell
from ._rnn_fused import LSTMBlockFusedCell as LSTMBlockFusedCell
from ._rnn_fused_adaptors import FusedRNNCell as FusedRNNCell
from ._rnn_fused_adaptors import FusedRNNCellAdaptor as FusedRNNCellAdaptor
from ._rnn_fused_adaptors import TimeReversedFusedRNN as TimeReversedFusedRNN
from ._rnn_stacks import stack_bidirectional_dynamic_rnn as stack_bidirectional_dynamic_rnn
from ._rnn_stacks import stack_bidirectional_rnn as stack_bidirectional_rnn

__all__ = """
    BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper FusedRNNCell FusedRNNCellAdaptor GRUCell
    LSTMBlockCell LSTMBlockFusedCell LSTMCell LSTMStateTuple LayerNormBasicLSTMCell LayerRNNCell
    MultiRNNCell RNNCell ResidualWrapper stack_bidirectional_dynamic_rnn stack_bidirectional_rnn
    static_bidirectional_rnn static_rnn static_state_saving_rnn transpose_batch_time
""".split()

OLD_PATHS = tuple(
    f"python.ops.{name}"
    for name in "core_rnn core_rnn_cell fused_rnn_cell gru_ops lstm_ops rnn rnn_cell".split()
)

_GRU = "Use GRUCell. Its variables have other names and the same shapes."
_KERAS = "Use a layer of tf.keras.layers, such as ConvLSTM2D, or write an RNNCell."
_OWN = "Write an RNNCell: a subclass of tf.nn.rnn_cell.RNNCell with call, state_size, output_size."

REMEDIES = {
    "GRUBlockCell": _GRU,
    "GRUBlockCellV2": "Use GRUCell, which has the same variables.",
    **dict.fromkeys(("Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell", "ConvLSTMCell"), _KERAS),
    **dict.fromkeys(
        """
        AttentionCellWrapper BidirectionalGridLSTMCell CoupledInputForgetGateLSTMCell
        EmbeddingWrapper GLSTMCell GridLSTMCell HighwayWrapper IndRNNCell IndyGRUCell IndyLSTMCell
        InputProjectionWrapper IntersectionRNNCell NASCell OutputProjectionWrapper PhasedLSTMCell
        SRUCell TimeFreqLSTMCell UGRNNCell
        """.split(),
        _OWN,
    ),
    "CompiledWrapper": "Leave the wrapper out, or compile the function with jit_compile=True.",
    "LSTMBlockWrapper": "Use LSTMBlockFusedCell.",
    "best_effort_input_batch_size": "Use tf.shape(inputs)[0].",
}

__getattr__ = _sources.lookup(
    __name__, ["tensorflow._api.v2.compat.v1.nn.rnn_cell", "tensorflow._api.v2.compat.v1.nn"]
)


def transpose_batch_time(x: Any) -> Any:
    """`x` with its first two dimensions exchanged; a tensor of a lower rank as it is."""
    x = tf.convert_to_tensor(x)
    if x.shape.rank is None:
        rest = tf.range(2, tf.rank(x))
        return tf.transpose(x, tf.concat([[1, 0], rest], 0))
    if x.shape.rank < 2:
        return x
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
