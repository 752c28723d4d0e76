"""Stacks of bidirectional recurrent networks: each layer reads both outputs of the one below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import tensorflow.compat.v1 as tf


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Sequence[Any],
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Outputs [batch, depth] of each step, and the final states of each layer, both ways."""

    def layer(values: Any, cells: Any, states: Any, scope: Any) -> Any:
        outputs, *final = tf.nn.static_bidirectional_rnn(
            *cells, values, *states, dtype=dtype, sequence_length=sequence_length, scope=scope
        )
        return outputs, final

    # static_bidirectional_rnn makes no scope, so it gets the layer's.
    return _stack(cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope, layer)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: Any = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, Any, Any]:
    """Outputs [batch, time, depth], and the final states of each layer, both ways."""

    def layer(values: Any, cells: Any, states: Any, scope: Any) -> Any:
        outputs, final = tf.nn.bidirectional_dynamic_rnn(
            *cells,
            values,
            initial_state_fw=states[0],
            initial_state_bw=states[1],
            sequence_length=sequence_length,
            parallel_iterations=parallel_iterations,
            dtype=dtype,
            swap_memory=swap_memory,
            time_major=time_major,
        )
        return tf.concat(outputs, 2), final

    return _stack(cells_fw, cells_bw, inputs, initial_states_fw, initial_states_bw, scope, layer)


def _stack(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    values: Any,
    states_fw: Any,
    states_bw: Any,
    scope: Any,
    layer: Callable[[Any, Any, Any, Any], Any],
) -> tuple[Any, Any, Any]:
    if not cells_fw or len(cells_fw) != len(cells_bw):
        raise ValueError(
            "cells_fw and cells_bw: expected as many forward as backward cells, at least one each, "
            f"got {len(cells_fw)} and {len(cells_bw)}"
        )
    for name, states in (("initial_states_fw", states_fw), ("initial_states_bw", states_bw)):
        if states is not None and len(states) != len(cells_fw):
            raise ValueError(f"{name}: expected {len(cells_fw)} states, got {len(states)}")
    final_fw, final_bw = [], []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for place, cells in enumerate(zip(cells_fw, cells_bw)):
            states = [s[place] if s is not None else None for s in (states_fw, states_bw)]
            with tf.variable_scope(f"cell_{place}") as of_layer:
                values, (forward, backward) = layer(values, cells, states, of_layer)
            final_fw.append(forward)
            final_bw.append(backward)
    return values, tuple(final_fw), tuple(final_bw)
