"""Runs the kit with the behavior of TensorFlow 2, in whatever program calls it.

    with eager.kept():
        module = importlib.import_module("my_models.tower")

Programs written for TensorFlow 1 begin with `tf.disable_v2_behavior()` or
`tf.compat.v1.disable_eager_execution()`, or call the kit inside `with tf.Graph().as_default():`.
The kit reads records eagerly, and it opens each graph of a model itself. Only the code of a model
depends on one of the choices: whether the lengths in a shape are numbers, or have a `value`, as in
`x.shape[1].value` (`disable_v2_tensorshape`). In `building()` they are as the program chose.

`as_written` turns AutoGraph off. tf.data lets AutoGraph read the source of every function that it
gets, and of every function that these call. The kit's functions have no Python `if` or `for` that
AutoGraph must convert. AutoGraph only delayed each start by some seconds, and caused warnings on
Python 3.13.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import tensorflow as tf
from tensorflow.python import tf2
from tensorflow.python.eager import context

_v1: Any = tf.compat.v1

# Whether the program, or a module of a model, has chosen shapes whose lengths have a `value`.
_has_old_shapes = False


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Runs the block, and threads that start in it, with the behavior of TensorFlow 2.

    Afterwards, the behavior is as it was before, whatever the block did.
    """
    before, default = _behavior(), context.default_execution_mode
    _remember_shapes()
    context.default_execution_mode = context.EAGER_MODE
    try:
        with context.eager_mode():
            _set((True,) * len(_SWITCHES))
            yield
    finally:
        _remember_shapes()
        _set(before)
        context.default_execution_mode = default


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Runs a block that builds a model in the current graph, also outside of `kept`."""
    with contextlib.ExitStack() as stack:
        if not (_v1.executing_eagerly_outside_functions() and tf2.enabled()):
            graph = _v1.get_default_graph()
            stack.enter_context(kept())
            stack.enter_context(graph.as_default())
        if _has_old_shapes and _lengths_are_numbers():
            stack.callback(_v1.enable_v2_tensorshape)
            _v1.disable_v2_tensorshape()
        yield


def _lengths_are_numbers() -> bool:
    return isinstance(tf.TensorShape([1])[0], int)


# The parts of `disable_v2_behavior`: is one on, and what turns it on and off. The rest, which class
# of data sets TensorFlow's own functions make, does not matter here.
_SWITCHES: tuple[tuple[Callable[[], bool], Callable[[], None], Callable[[], None]], ...] = (
    (tf2.enabled, tf2.enable, tf2.disable),
    (_lengths_are_numbers, _v1.enable_v2_tensorshape, _v1.disable_v2_tensorshape),
    (
        _v1.resource_variables_enabled,
        _v1.enable_resource_variables,
        _v1.disable_resource_variables,
    ),
    (_v1.control_flow_v2_enabled, _v1.enable_control_flow_v2, _v1.disable_control_flow_v2),
    (lambda: tf.Tensor._USE_EQUALITY, _v1.enable_tensor_equality, _v1.disable_tensor_equality),
)


def _behavior() -> tuple[bool, ...]:
    return tuple(is_on() for is_on, _, _ in _SWITCHES)


def _set(wanted: tuple[bool, ...]) -> None:
    for on, (is_on, turn_on, turn_off) in zip(wanted, _SWITCHES):
        if is_on() != on:  # TensorFlow logs that some are deprecated.
            (turn_on if on else turn_off)()


def _remember_shapes() -> None:
    global _has_old_shapes
    _has_old_shapes |= not _lengths_are_numbers()


_F = TypeVar("_F", bound=Callable[..., Any])


def as_written(function: _F) -> _F:
    """The same function. tf.data functions that it defines are not converted by AutoGraph."""
    same: _F = tf.autograph.experimental.do_not_convert(function)
    return same
