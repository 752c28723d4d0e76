"""Names of tf.contrib that TensorFlow still has elsewhere, looked up when they are first used.

A home module says where its names are, and takes the lookup as its `__getattr__`:

    __getattr__ = _sources.lookup(__name__, ["tensorflow.python.tpu.tpu"])

It also finds private names, which programs import by the old private paths. It never changes a
module.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Callable


def lookup(home: str, modules: Sequence[str]) -> Callable[[str], Any]:
    """A `__getattr__` for the module `home`: the name in the first of `modules` that has it.

    A module that this TensorFlow does not have is left out.
    """

    def find(name: str) -> Any:
        if not name.startswith("__"):
            for module in modules:
                try:
                    return getattr(importlib.import_module(module), name)
                except (ModuleNotFoundError, AttributeError):
                    continue
        raise AttributeError(f"module {home!r} has no attribute {name!r}")

    return find
