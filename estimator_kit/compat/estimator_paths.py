"""Restores `tensorflow.python.estimator`, the old path of tensorflow-estimator's modules.

Until 2.15 TensorFlow had a second path to each of these modules, and old libraries import private
names from it:

    from tensorflow.python.estimator.canned.head import _Head

Each path leads to the module itself, not to a copy as in TensorFlow 2.15. So a class is the same
under both paths. `MODULES` lists the modules in the wheel of TensorFlow 2.15.1. Any other name
under `tensorflow.python.estimator` raises ModuleNotFoundError, as it does in TensorFlow 2.15.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from types import ModuleType

_OLD = "tensorflow.python.estimator"
_NOW = "tensorflow_estimator.python.estimator"

_PACKAGES = ("", ".canned", ".export", ".inputs", ".inputs.queues")

# Module names below the old path. All except `keras` have the same name below the new path.
MODULES = (
    "canned.baseline",
    "canned.dnn",
    "canned.dnn_linear_combined",
    "canned.head",
    "canned.linear",
    "canned.metric_keys",
    "canned.optimizers",
    "canned.parsing_utils",
    "canned.prediction_keys",
    "estimator",
    "estimator_lib",
    "export.export",
    "export.export_lib",
    "export.export_output",
    "exporter",
    "gc",
    "inputs.inputs",
    "inputs.numpy_io",
    "inputs.pandas_io",
    "inputs.queues.feeding_functions",
    "inputs.queues.feeding_queue_runner",
    "keras",
    "model_fn",
    "run_config",
    "training",
    "util",
)
_RENAMED = {"keras": "keras_lib"}


def install(undo: contextlib.ExitStack) -> None:
    """Makes every old path importable; `undo` reverts that. Needs tensorflow-estimator's API."""
    if _OLD in sys.modules:
        return
    for package in _PACKAGES:
        module = ModuleType(_OLD + package, f"The old path of {_NOW}{package}.")
        module.__path__ = []
        _put(_OLD + package, module, undo)
    for name in MODULES:
        _put(f"{_OLD}.{name}", importlib.import_module(f"{_NOW}.{_RENAMED.get(name, name)}"), undo)


def _put(path: str, module: ModuleType, undo: contextlib.ExitStack) -> None:
    parent, _, attribute = path.rpartition(".")
    sys.modules[path] = module
    undo.callback(sys.modules.pop, path, None)
    holder = importlib.import_module(parent)
    setattr(holder, attribute, module)
    undo.callback(delattr, holder, attribute)
