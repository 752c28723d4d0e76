"""Says what to use instead of names that TensorFlow 2 has removed.

`tf.app`, `tf.train.AdamOptimizer` and other names of TensorFlow 1, `tf.contrib` and
`tf.estimator.BoostedTrees*` raise the same errors as without this package, but the message names
the option of the launcher, or a replacement. `hasattr` and `try: import` give the same results.

This module adds no name that a program can find.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, Optional

_TENSORFLOWS = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")

_LAUNCHER = f"`python -m {__package__} --tf1 PROGRAM.py`"
_CONTRIB = (
    f"tf.contrib ended with TensorFlow 1.15. {_LAUNCHER} runs the program with the part of it that "
    "Estimator programs use."
)
_BOOSTED_TREES = (
    "tensorflow-estimator 2.15 no longer has boosted trees. Train them with YDF (pip install "
    "ydf), XGBoost or LightGBM."
)

MessageOf = Callable[[str], Optional[str]]


def explain(undo: contextlib.ExitStack) -> None:
    """Adds the messages to the modules; `undo` removes them."""
    v1 = importlib.import_module("tensorflow.compat.v1")
    _explain(v1, [_of_contrib], undo)
    _explain(v1.estimator, [_of_estimator], undo)
    for path, module, old in _namespaces(v1):
        _explain(module, [_of_contrib, _of_estimator, _of_tensorflow_1(path, old)], undo)
    finder = _ContribFinder()
    sys.meta_path.append(finder)
    undo.callback(sys.meta_path.remove, finder)


def _of_estimator(name: str) -> Optional[str]:
    return _BOOSTED_TREES if name.startswith("BoostedTrees") else None


def _of_contrib(name: str) -> Optional[str]:
    return _CONTRIB if name == "contrib" else None


def _of_tensorflow_1(path: str, v1: Any) -> MessageOf:
    def message(name: str) -> Optional[str]:
        if name.startswith("_") or not hasattr(v1, name):
            return None
        return (
            f"{path}.{name} is a name of TensorFlow 1. Run the program with {_LAUNCHER}, or "
            "upgrade its code with tf_upgrade_v2."
        )

    return message


def _namespaces(v1: Any) -> Iterator[tuple[str, Any, Any]]:
    """(path, module of TensorFlow 2, module of tf.compat.v1), such as tf and tf.train."""
    for name in ("tensorflow", "tensorflow.compat.v2"):
        v2 = importlib.import_module(name)
        yield "tf", v2, v1
        for part in dir(v2):
            below, old = getattr(v2, part, None), getattr(v1, part, None)
            both = isinstance(below, ModuleType) and isinstance(old, ModuleType)
            if both and part != "compat" and _plain(below) is not _plain(old):
                yield f"tf.{part}", below, old


def _plain(module: Any) -> Any:
    """The module behind TensorFlow's wrapper of a module."""
    return vars(module).get("_tfmw_wrapped_module", module)


def _explain(module: Any, messages: list[MessageOf], undo: contextlib.ExitStack) -> None:
    """Adds a module's messages for missing names: the first of `messages` that knows a name."""
    plain = _plain(module)
    if type(plain) is not ModuleType or "__getattr__" in vars(plain):
        return

    def missing(name: str) -> Any:
        message = next((text for of in messages if (text := of(name))), None)
        end = f": {message}" if message else ""
        error = AttributeError(f"module {plain.__name__!r} has no attribute {name!r}{end}")
        if message:
            error.name = name  # Without the object, Python suggests no other name.
        raise error

    plain.__getattr__ = missing  # type: ignore[method-assign]
    undo.callback(delattr, plain, "__getattr__")


class _ContribFinder(MetaPathFinder):
    """The last finder: Python asks it only for modules that no other finder knows."""

    def find_spec(self, name: str, path: Optional[Sequence[str]], target: Any = None) -> None:
        for parent in _TENSORFLOWS:
            if name == f"{parent}.contrib":
                raise ModuleNotFoundError(f"No module named {name!r}: {_CONTRIB}", name=name)
