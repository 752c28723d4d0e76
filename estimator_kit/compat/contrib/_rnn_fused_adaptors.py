"""Recurrent networks that are called once for all steps, made from other cells.

Inputs are [time, batch, depth], or a list with one [batch, depth] for each step; outputs have the
same form.
"""

from __future__ import annotations

import abc
from typing import Any

import tensorflow.compat.v1 as tf


class FusedRNNCell(metaclass=abc.ABCMeta):
    """A recurrent network that is called once for all steps."""

    @abc.abstractmethod
    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Any:
        """The outputs of all steps, and the final state of each sequence."""


class FusedRNNCellAdaptor(FusedRNNCell):
    """A FusedRNNCell from an RNNCell."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell = cell
        self._dynamic = use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Any:
        is_list = isinstance(inputs, list)
        run = tf.nn.dynamic_rnn if self._dynamic else tf.nn.static_rnn
        if self._dynamic == is_list:
            inputs = tf.stack(inputs) if is_list else tf.unstack(inputs)
        outputs, state = run(
            self._cell,
            inputs,
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            scope=scope,
            **({"time_major": True} if self._dynamic else {}),
        )
        if self._dynamic == is_list:
            outputs = tf.unstack(outputs) if is_list else tf.stack(outputs)
        return outputs, state


class TimeReversedFusedRNN(FusedRNNCell):
    """A FusedRNNCell that reads each sequence from its end. Outputs keep the order of inputs."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> Any:
        outputs, state = self._cell(
            _reversed(inputs, sequence_length),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            scope=scope,
        )
        return _reversed(outputs, sequence_length), state


def _reversed(values: Any, lengths: Any) -> Any:
    if isinstance(values, list):
        return values[::-1]
    if lengths is None:
        return tf.reverse(values, [0])
    return tf.reverse_sequence(values, lengths, seq_axis=0, batch_axis=1)
