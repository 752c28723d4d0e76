"""tf.contrib.tensorboard: `plugins.projector`, which is part of the package tensorboard now."""

from __future__ import annotations

import importlib
from types import ModuleType

_NAMES = ("plugins",)

__all__ = list(_NAMES)

OLD_PATHS = {
    "plugins": "tensorboard.plugins",
    "plugins.projector": "tensorboard.plugins.projector",
}


def __getattr__(name: str) -> ModuleType:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Only projector was in tf.contrib; the import makes it an attribute of plugins.
    importlib.import_module("tensorboard.plugins.projector")
    return importlib.import_module("tensorboard.plugins")
