"""Makes `tf.keras` Keras 2, which tensorflow-estimator is written for.

Since TensorFlow 2.16 `tf.keras` is Keras 3. Keras 3 has no graph mode, so the heads, metrics and
canned models of tensorflow-estimator fail with it. Keras 2 is still available as the package
`tf_keras`, and TensorFlow uses it if the environment variable TF_USE_LEGACY_KERAS is set.

- `problems` lists what prevents that, and changes nothing.
- `choose` sets the variable. Before TensorFlow is imported, that is enough. After the import, it
  works as long as nothing has used `tf.keras`, because TensorFlow decides at the first use. Then
  `choose` also sets the search path of `import tensorflow.keras`, which TensorFlow sets at its
  import.
- `load` resolves every lazy Keras loader of TensorFlow at once. The loaders are not thread-safe,
  and Estimators build graphs in threads.
- `result_problems` checks the result.

This module never removes Keras 3 from a process that already uses it. It never runs on TensorFlow
2.15, where the variable breaks `tf.keras` unless `tf_keras` is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import PurePath
from types import ModuleType
from typing import Any, Optional

from .versions import Installed, minor_of

VARIABLE = "TF_USE_LEGACY_KERAS"

# The values that TensorFlow reads as yes. It reads all other values as no.
_YES = ("1", "true", "True")

# Where `tensorflow.keras`, `tensorflow.compat.v1.keras`, ... are found as modules inside tf_keras.
_SEARCH_PATHS = (
    ("tensorflow", "_v2"),
    ("tensorflow.compat.v2", "_v2"),
    ("tensorflow.compat.v1", "_v1"),
)


def problems(installed: Installed) -> list[str]:
    """What prevents legacy Keras: one sentence with its remedy for each problem."""
    assert installed.tensorflow is not None
    wanted = os.environ.get(VARIABLE)
    if installed.has_own_estimator:
        if wanted in _YES and installed.tf_keras is None:
            return [f"{VARIABLE}={wanted} breaks tf.keras without the package tf_keras. Unset it."]
        return []

    messages = []
    major, minor = minor_of(installed.tensorflow)
    if installed.tf_keras is None or minor_of(installed.tf_keras) != (major, minor):
        messages.append(
            f"expected tf_keras {major}.{minor} (Keras 2), got {installed.tf_keras or 'none'}. "
            f'Install it with `pip install "tf_keras=={major}.{minor}.*"`.'
        )
    elif _keras_folder() is None:
        messages.append(
            f"tf_keras {installed.tf_keras} is registered as installed but cannot be found. "
            "Install it again with "
            f'`pip install --force-reinstall --no-deps "tf_keras=={major}.{minor}.*"`.'
        )
    if wanted and wanted not in _YES:
        messages.append(f"{VARIABLE}: expected '1', got {wanted!r}. Set it to 1, or unset it.")
    elif user := _user_of_keras_3():
        messages.append(
            f"Keras 3 is already in use ({user}). Import {__package__} before tensorflow, or "
            f"set {VARIABLE}=1."
        )
    return messages


def choose(undo: contextlib.ExitStack) -> None:
    """Makes TensorFlow use `tf_keras`; `undo` reverts that."""
    before = os.environ.get(VARIABLE)
    if before in _YES:
        return
    undo.callback(_set_variable, before)
    paths = _search_paths()
    undo.callback(_remove_search_paths, paths)
    _set_variable("1")
    if "tensorflow" in sys.modules:
        for name, directory in paths:
            importlib.import_module(name).__path__.insert(0, directory)


def load() -> None:
    """Resolves every lazy Keras loader in TensorFlow's modules, once, in this thread."""
    for _, loader in _loaders():
        dir(loader)


def result_problems() -> list[str]:
    """Problems with the Keras that TensorFlow has loaded."""
    import tensorflow as tf

    module = str(tf.keras.Model.__module__)
    if module.split(".")[0] == "tf_keras":
        return []
    return [f"TensorFlow did not load tf_keras: tf.keras.Model comes from {module}"]


def _set_variable(value: Optional[str]) -> None:
    if value is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = value


def _search_paths() -> list[tuple[str, str]]:
    """(TensorFlow module, tf_keras directory with its `keras`) for each search path."""
    folder = _keras_folder()
    assert folder is not None, "problems() has found tf_keras"
    api = os.path.join(folder, "api")
    return [(name, os.path.join(api, version)) for name, version in _SEARCH_PATHS]


def _keras_folder() -> Optional[str]:
    try:
        spec = importlib.util.find_spec("tf_keras")
    except (ImportError, ValueError):
        return None
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else None


def _remove_search_paths(paths: list[tuple[str, str]]) -> None:
    """Removes the paths that `choose`, or TensorFlow's import after it, has set."""
    for name, directory in paths:
        path = getattr(sys.modules.get(name), "__path__", [])
        if directory in path:
            path.remove(directory)


def _user_of_keras_3() -> Optional[str]:
    """The name that has loaded Keras 3 in this process, or None."""
    if "tensorflow" not in sys.modules:
        return None
    for name in ("tensorflow.keras", "tensorflow.compat.v1.keras", "tensorflow.compat.v2.keras"):
        file = getattr(sys.modules.get(name), "__file__", None)
        # Keras 3 is in keras/_tf_keras/keras, and legacy Keras is in tf_keras/api.
        if file and "tf_keras" not in PurePath(file).parts:
            return f"import {name}"
    for name, module in _tensorflow_modules():
        keras = vars(module).get("keras")
        # Read from the dict, because any other access would resolve a lazy loader.
        if isinstance(keras, ModuleType) and vars(keras).get("__name__", "").startswith("keras."):
            return f"{name}.keras"
    for name, loader in _loaders():
        if vars(loader).get("_tfll_keras_version") not in (None, "tf_keras"):
            return name.replace("tensorflow._api.v2.", "tensorflow.")
    return None


def _loaders() -> Iterator[tuple[str, Any]]:
    try:
        from tensorflow.python.util.lazy_loader import KerasLazyLoader
    except ImportError:
        return  # private_names.py reports it.
    for name, module in _tensorflow_modules():
        for attribute, value in list(vars(module).items()):
            if isinstance(value, KerasLazyLoader):
                yield f"{name}.{attribute.lstrip('_')}", value


def _tensorflow_modules() -> list[tuple[str, ModuleType]]:
    return [
        (name, module)
        for name, module in sorted(sys.modules.items())
        if name.split(".")[0] == "tensorflow" and isinstance(module, ModuleType)
    ]
