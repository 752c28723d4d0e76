"""The modules of TensorFlow 2.15 under `tensorflow.python.tpu` that later versions do not have.

- `async_checkpoint` is replaced by async_checkpoint.py.
- `session_support`, `tpu_embedding` and `tpu_embedding_gradient` have stand-ins. TPUEstimator
  imports them, and uses them only on TPUs. `tpu_embedding` has the classes of
  embedding_parameters.py and embedding_configs.py, which hold settings.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from types import ModuleType

from .. import added_modules
from . import embedding_configs, embedding_parameters
from .stand_ins import StandIn

_PACKAGE = "tensorflow.python.tpu"
_ASYNC = "async_checkpoint"
MODULES = (_ASYNC, "session_support", "tpu_embedding", "tpu_embedding_gradient")

_WHY = (
    "TensorFlow removed this part for TPUs after 2.15. TPUEstimator works on CPUs and GPUs with "
    "use_tpu=False. For TPUs, stay on TensorFlow 2.15."
)


def install_removed_modules(undo: contextlib.ExitStack) -> None:
    """Adds the modules that TensorFlow does not have; `undo` removes them."""
    for name in MODULES:
        path = f"{_PACKAGE}.{name}"
        if path not in sys.modules and importlib.util.find_spec(path) is None:
            added_modules.add(path, _replacement(name, path), undo)


def _replacement(name: str, path: str) -> ModuleType:
    if name == _ASYNC:
        return importlib.import_module(f".{name}", __package__)
    module = StandIn(path, _WHY)
    if name == "tpu_embedding":
        for settings in embedding_parameters.NAMES:
            setattr(module, settings, getattr(embedding_parameters, settings))
        for settings in ("FeatureConfig", "TableConfig"):
            setattr(module, settings, getattr(embedding_configs, settings))
    return module
