"""Restores the names under which TensorFlow 2.15 has the modules of tensorflow-estimator.

- `tf.estimator`, `tf.compat.v1.estimator`, `tf.compat.v2.estimator`, and the same names in the
  nested `compat` modules. `import tensorflow.estimator` and
  `from tensorflow.compat.v1.estimator import ...` also work: the names are in `sys.modules`.
- `tensorflow.python.estimator`, the second path to each module, from which old libraries import
  private names: `from tensorflow.python.estimator.canned.head import _Head`. Each path leads to the
  module itself, not to a copy as in TensorFlow 2.15. So a class is the same under both paths.
  `MODULES` lists the modules in the wheel of TensorFlow 2.15.1. Any other name there raises
  ModuleNotFoundError, as it does in TensorFlow 2.15.
- The API name "estimator" of TensorFlow's export decorator, with which tensorflow-estimator marks
  each public symbol: `tf_export.api_export(api_name="estimator")`. TensorFlow 2.16 has removed the
  entry from two tables. Only its API generator and documentation use the marks.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from types import ModuleType

from . import added_modules

_API = "tensorflow_estimator.python.estimator.api"

# The public modules of TensorFlow that have an `estimator`, and which version of the API it is.
_PUBLIC = {"tensorflow": "_v2", "tensorflow.compat.v1": "_v1", "tensorflow.compat.v2": "_v2"}

# TensorFlow's copies of these modules, for example `tf.compat.v1.compat.v1`. Not every TensorFlow
# has all of them.
_COPIES = {
    f"tensorflow._api.v2.{name}": version
    for name, version in {
        "compat.v1": "_v1",
        "compat.v2": "_v2",
        "compat.v1.compat.v1": "_v1",
        "compat.v1.compat.v2": "_v2",
        "compat.v2.compat.v1": "_v1",
        "compat.v2.compat.v2": "_v2",
    }.items()
}


def import_holders() -> None:
    """Imports the modules that get an `estimator`. TensorFlow loads some of them only on demand."""
    for name in _PUBLIC:
        importlib.import_module(name)


def install_namespaces(undo: contextlib.ExitStack) -> None:
    """Imports tensorflow-estimator and sets its API on TensorFlow's modules."""
    apis = {name: importlib.import_module(f"{_API}.{name}.estimator") for name in ("_v1", "_v2")}
    for name, version in {**_PUBLIC, **_COPIES}.items():
        holder = sys.modules.get(name)
        if holder is not None and not hasattr(holder, "estimator"):
            holder.estimator = apis[version]  # type: ignore[attr-defined]
            undo.callback(delattr, holder, "estimator")
    for name, version in _PUBLIC.items():
        _alias(f"{_API}.{version}.estimator", f"{name}.estimator")


def _alias(real: str, alias: str) -> None:
    """Makes `real` and its submodules importable under the name `alias`."""
    for name, module in list(sys.modules.items()):
        if name == real or name.startswith(real + "."):
            sys.modules.setdefault(alias + name[len(real) :], module)


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


def install_old_paths(undo: contextlib.ExitStack) -> None:
    """Makes every old path importable; `undo` reverts that. Needs tensorflow-estimator's API."""
    if _OLD in sys.modules:
        return
    for package in _PACKAGES:
        module = ModuleType(_OLD + package, f"The old path of {_NOW}{package}.")
        module.__path__ = []
        added_modules.add(_OLD + package, module, undo)
    for name in MODULES:
        module = importlib.import_module(f"{_NOW}.{_RENAMED.get(name, name)}")
        added_modules.add(f"{_OLD}.{name}", module, undo)


_NAME = "estimator"


def install_export_names(undo: contextlib.ExitStack) -> None:
    """Adds the entries; `undo` removes them again."""
    from tensorflow.python.util import tf_export

    for table, suffix in ((tf_export.API_ATTRS, ""), (tf_export.API_ATTRS_V1, "_v1")):
        if _NAME not in table:
            table[_NAME] = tf_export._Attributes(
                f"_estimator_api_names{suffix}", f"_estimator_api_constants{suffix}"
            )
            undo.callback(table.pop, _NAME)
    if not hasattr(tf_export, "ESTIMATOR_API_NAME"):
        tf_export.ESTIMATOR_API_NAME = _NAME
        undo.callback(delattr, tf_export, "ESTIMATOR_API_NAME")
