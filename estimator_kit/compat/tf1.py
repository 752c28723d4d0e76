"""TensorFlow 1 in this process: `import estimator_kit.compat.tf1`, before `import tensorflow`.

Programs that were written for TensorFlow 1 then find what they look for:

- `import tensorflow as tf` gives the names of `tf.compat.v1`: `tf.Session`, `tf.flags`, `tf.app`,
  `tf.train.AdamOptimizer`. Modules such as `tensorflow.python.ops` stay importable.
- The behavior of TensorFlow 2 is off (`tf.compat.v1.disable_v2_behavior`): graphs instead of eager
  execution, and variables that are not resources.
- `tf.contrib` has the modules of the folder contrib; each is loaded when it is first used.
- Names that Python and NumPy have removed since then are back, such as `collections.Iterable` and
  `numpy.int` (old_python.py).

It works on TensorFlow 2.15 too. It puts another module into `sys.modules["tensorflow"]`, and never
replaces a name of TensorFlow that exists: what the modules of TensorFlow and
tensorflow-estimator have imported stays as it is. `install` does nothing if it was called before.

Do not use it in a program for TensorFlow 2, nor with the other parts of estimator_kit.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys
from types import ModuleType
from typing import Any

from . import contrib, installer, old_python, private_paths

_TENSORFLOW = "tensorflow"


class _TensorFlow1(ModuleType):
    """The module `tensorflow` with the names of `tf.compat.v1`."""

    def __init__(self, v1: ModuleType, v2: ModuleType) -> None:
        super().__init__(_TENSORFLOW, v1.__doc__)
        self.__path__ = list(dict.fromkeys([*v1.__path__, *v2.__path__]))
        self.__file__ = v2.__file__
        self.__loader__, self.__spec__ = v2.__loader__, v2.__spec__
        self._v1 = v1
        self.compat = v2.compat  # tf.compat.v1 has a copy of itself, without what is added to it.

    def __getattr__(self, name: str) -> Any:
        if name == "contrib":
            return importlib.import_module(contrib.NAME)
        try:
            value = getattr(self._v1, name)
        except AttributeError as error:
            # A module such as tensorflow.python has no public name in tf.compat.v1.
            value = sys.modules.get(f"{_TENSORFLOW}.{name}")
            if value is None:
                raise AttributeError(str(error).replace(self._v1.__name__, _TENSORFLOW)) from None
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._v1), *vars(self), "contrib"})


def is_installed() -> bool:
    """Whether `import tensorflow` gives TensorFlow 1 in this process."""
    # By name, because the kit and estimator-kit-compat each have a class.
    return type(sys.modules.get(_TENSORFLOW)).__name__ == _TensorFlow1.__name__


def install() -> contextlib.ExitStack:
    """Makes this a process of TensorFlow 1. Closing the result reverts that, for tests.

    Raises:
      UnsupportedTensorFlowError: as `installer.install`.
    """
    undo = contextlib.ExitStack()
    if is_installed():
        return undo
    installer.install()
    import tensorflow as v2
    import tensorflow.compat.v1 as v1

    with contextlib.ExitStack() as reverting:
        _import_estimator()
        private_paths.install(reverting)
        old_python.install(reverting)
        _disable_v2_behavior(v1)
        reverting.callback(v1.enable_v2_behavior)
        contrib.install(reverting)
        reverting.callback(sys.modules.__setitem__, _TENSORFLOW, v2)
        sys.modules[_TENSORFLOW] = _TensorFlow1(v1, v2)
        undo.push(reverting.pop_all())
    return undo


def _disable_v2_behavior(v1: Any) -> None:
    """Without the warning that variables which are not resources have no future."""
    level = v1.logging.get_verbosity()
    v1.logging.set_verbosity(v1.logging.ERROR)
    try:
        v1.disable_v2_behavior()
    finally:
        v1.logging.set_verbosity(level)


def _import_estimator() -> None:
    """Imports all of tensorflow-estimator, whose modules expect TensorFlow 2 as `tensorflow`."""
    package = importlib.import_module("tensorflow_estimator.python.estimator")
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        # A module of its tools makes a graph; after that, no program can enable eager execution.
        if "test" not in found.name and ".tools" not in found.name:
            importlib.import_module(found.name)


install()
