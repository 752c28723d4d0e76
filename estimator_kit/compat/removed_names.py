"""Explains names that old programs use, but that even TensorFlow 2.15 no longer has.

`tf.contrib`, `import tensorflow.contrib` and `tf.estimator.BoostedTrees*` raise the same errors as
without this package (AttributeError, ModuleNotFoundError), but the message says what to use
instead. `hasattr` and `try: import` give the same results. The names are not replaced.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, Optional

_TENSORFLOWS = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")

_CONTRIB = (
    "tf.contrib ended with TensorFlow 1.15. docs/guides/longevity.md lists the replacements, such "
    "as tf.estimator for contrib.learn and contrib.estimator, and the package tf_slim for "
    "contrib.layers and contrib.slim."
)
_BOOSTED_TREES = (
    "tensorflow-estimator 2.15 no longer has boosted trees. Train them with YDF (pip install "
    "ydf), XGBoost or LightGBM."
)


def install(undo: contextlib.ExitStack) -> None:
    """Adds the messages to the modules; `undo` removes them."""
    for name in _TENSORFLOWS:
        module = importlib.import_module(name)
        _explain(module, lambda missing: _CONTRIB if missing == "contrib" else None, undo)
        _explain(
            module.estimator,
            lambda missing: _BOOSTED_TREES if missing.startswith("BoostedTrees") else None,
            undo,
        )
    finder = _ContribFinder()
    sys.meta_path.append(finder)
    undo.callback(sys.meta_path.remove, finder)


def _explain(
    module: Any, message_of: Callable[[str], Optional[str]], undo: contextlib.ExitStack
) -> None:
    """Adds a module's messages for missing names."""
    plain = vars(module).get("_tfmw_wrapped_module", module)
    if type(plain) is not ModuleType or "__getattr__" in vars(plain):
        return

    def missing(name: str) -> Any:
        message = message_of(name)
        end = f": {message}" if message else ""
        raise AttributeError(f"module {plain.__name__!r} has no attribute {name!r}{end}")

    plain.__getattr__ = missing  # type: ignore[method-assign]
    undo.callback(delattr, plain, "__getattr__")


class _ContribFinder(MetaPathFinder):
    """The last finder: Python asks it only for modules that no other finder knows."""

    def find_spec(self, name: str, path: Optional[Sequence[str]], target: Any = None) -> None:
        for parent in _TENSORFLOWS:
            if name == f"{parent}.contrib":
                raise ModuleNotFoundError(f"No module named {name!r}: {_CONTRIB}", name=name)
