"""Adds a module under a path of TensorFlow, the one way in which this package does that.

It never replaces a module, or a name of the package that holds it: callers check that the path is
free.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from types import ModuleType


def add(path: str, module: ModuleType, undo: contextlib.ExitStack) -> None:
    """Makes `module` importable as `path`, and a name of its package; `undo` reverts that."""
    parent, _, name = path.rpartition(".")
    sys.modules[path] = module
    undo.callback(sys.modules.pop, path, None)
    holder = importlib.import_module(parent)
    if name not in vars(holder):
        setattr(holder, name, module)
        undo.callback(delattr, holder, name)
