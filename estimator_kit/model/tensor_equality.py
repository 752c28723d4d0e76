"""Warns if user code compares a tensor with `==` or `!=` in an Estimator's graph.

In such a graph, Python's operators compare objects: `features["age"] == 0` is False for any ages,
and the results are silently wrong. TensorFlow compares values only in eager programs.

    with tensor_equality.warned():
        model.logits(features, mode)

The module does not change results: it wraps the operators of `tf.Tensor` while a block runs, in all
threads, and the wrappers return the same values. It does not warn about `tensor in tensors`, which
looks for the same object, about comparisons with None, or about code of TensorFlow, Keras and the
kit.
"""

from __future__ import annotations

import contextlib
import dis
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import tensorflow as tf

_log = logging.getLogger("estimator_kit")

_OPERATORS = {"__eq__": ("==", "tf.equal"), "__ne__": ("!=", "tf.not_equal")}
_NOT_A_USERS = ("tensorflow", "tensorflow_estimator", "tf_keras", "keras", "estimator_kit")

_lock = threading.Lock()
_blocks = 0
_originals: dict[str, Any] = {}
_warned_places: set[tuple[str, int]] = set()


@contextlib.contextmanager
def warned() -> Iterator[None]:
    """While the block runs, logs each line that compares tensors with `==` once."""
    global _blocks
    with _lock:
        _blocks += 1
        if _blocks == 1:
            _warned_places.clear()
            for name in _OPERATORS:
                _originals[name] = vars(tf.Tensor)[name]
                setattr(tf.Tensor, name, _wrapped(name, _originals[name]))
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                for name, original in _originals.items():
                    setattr(tf.Tensor, name, original)


def _wrapped(name: str, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    operator, function = _OPERATORS[name]

    def compare(tensor: Any, other: Any) -> Any:
        result = original(tensor, other)
        if isinstance(result, bool) and other is not None:
            _warn(sys._getframe(1), operator, function, result)
        return result

    return compare


def _warn(caller: FrameType, operator: str, function: str, result: bool) -> None:
    code = caller.f_code
    by_operator = code.co_code[caller.f_lasti] == dis.opmap["COMPARE_OP"]
    package = caller.f_globals.get("__name__", "").split(".")[0]
    place = code.co_filename, caller.f_lineno
    if not by_operator or package in _NOT_A_USERS or place in _warned_places:
        return
    _warned_places.add(place)
    _log.warning(
        "%s:%d: %s on tensors is always %s here, because in an Estimator's graph it asks whether "
        "they are the same object. Use %s.",
        *place,
        operator,
        result,
        function,
    )
