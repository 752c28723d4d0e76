"""Stand-ins for the modules of TensorFlow that TPUEstimator imports and only TPUs use.

Any name of such a module is a class, so that modules can import and annotate with it. Making an
object raises UnsupportedTensorFlowError. With `use_tpu=False` TPUEstimator makes none.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

from ..errors import UnsupportedTensorFlowError

_PACKAGE = "tensorflow.python.tpu"
MODULES = ("session_support", "tpu_embedding", "tpu_embedding_gradient")


class _Removed(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        made = _class(name, self.__name__)
        setattr(self, name, made)
        return made


def _class(name: str, module: str) -> type:
    message = (
        f"{module}.{name}: TensorFlow removed this part for TPUs after 2.15. TPUEstimator works on "
        "CPUs and GPUs with use_tpu=False and without embedding_config_spec. For TPUs, stay on "
        "TensorFlow 2.15."
    )

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedTensorFlowError(message)

    return type(name, (), {"__new__": refuse, "__doc__": message, "__module__": module})


def install_removed_modules(undo: contextlib.ExitStack) -> None:
    """Adds the modules that TensorFlow does not have; `undo` removes them."""
    package = importlib.import_module(_PACKAGE)
    for name in MODULES:
        path = f"{_PACKAGE}.{name}"
        if path not in sys.modules and importlib.util.find_spec(path) is None:
            module = _Removed(path, f"Stand-in for {path}, which TensorFlow removed.")
            sys.modules[path] = module
            undo.callback(sys.modules.pop, path, None)
            setattr(package, name, module)
            undo.callback(delattr, package, name)
