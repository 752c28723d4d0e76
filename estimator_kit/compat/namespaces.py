"""Puts the API of tensorflow-estimator where TensorFlow 2.15 has it.

`tf.estimator`, `tf.compat.v1.estimator`, `tf.compat.v2.estimator`, and the same names in the nested
`compat` modules, become the same modules as on TensorFlow 2.15. `import tensorflow.estimator` and
`from tensorflow.compat.v1.estimator import ...` also work, because the names are in `sys.modules`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys

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


def install(undo: contextlib.ExitStack) -> None:
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
