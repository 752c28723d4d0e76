"""`tf.contrib` of TensorFlow 1.15, as far as Estimator programs use it; part of tf1.

Each module of this folder is the module of `tf.contrib` with its name, except those that begin with
an underscore. It is imported when a program first uses it. Its names behave as in TensorFlow 1.15.
A module here has:

- `__all__`: its public names;
- `REMEDIES`: a name of TensorFlow 1.15 that it does not have -> what to use instead, as a sentence;
- `OLD_PATHS`: private modules under which programs import its names, such as
  `python.layers.initializers` of layers. They show the same names as the module. A dictionary
  gives each path the module whose names it shows instead; None is the module itself.

The last two are optional.

A module or a name that is not here raises AttributeError or ModuleNotFoundError, as any missing
name does, and the message says what to use instead.

This package never replaces a module: it adds `tensorflow.contrib` and modules below it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys

from ._finder import NAME as NAME
from ._finder import V1_NAME as V1_NAME
from ._finder import Finder
from ._finder import modules as modules
from ._remedies import FOR_MODULES as FOR_MODULES

# `import tensorflow.compat.v1 as tf` has a tf.contrib too.
_V1 = ("tensorflow.compat.v1", "tensorflow._api.v2.compat.v1")


def install(undo: contextlib.ExitStack) -> None:
    """Makes `tensorflow.contrib` importable; `undo` reverts that."""
    finder = Finder()
    sys.meta_path.insert(0, finder)
    undo.callback(_forget)
    undo.callback(sys.meta_path.remove, finder)
    root = importlib.import_module(NAME)
    # The import made it an attribute of the module tensorflow.
    undo.callback(vars(sys.modules["tensorflow"]).pop, "contrib", None)
    for name in _V1:
        holder = sys.modules.get(name)
        if holder is not None and "contrib" not in vars(holder):
            holder.contrib = root  # type: ignore[attr-defined]
            undo.callback(delattr, holder, "contrib")


def _forget() -> None:
    for name in list(sys.modules):
        if f"{name}.".startswith((f"{NAME}.", f"{V1_NAME}.")):
            del sys.modules[name]
