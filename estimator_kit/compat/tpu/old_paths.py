"""The modules of TPUEstimator under `tensorflow.python.tpu`, where TensorFlow 2.15 has them."""

from __future__ import annotations

import contextlib
import importlib
import sys

from .. import added_modules

_OLD = "tensorflow.python.tpu"
_NOW = "tensorflow_estimator.python.estimator.tpu"
MODULES = ("error_handling", "tpu_config", "tpu_context", "tpu_estimator", "util")


def install_old_paths(undo: contextlib.ExitStack) -> None:
    """Adds the paths that TensorFlow does not have; `undo` removes them."""
    for name in MODULES:
        path = f"{_OLD}.{name}"
        if path not in sys.modules:
            added_modules.add(path, importlib.import_module(f"{_NOW}.{name}"), undo)
