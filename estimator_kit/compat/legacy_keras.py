"""Makes `tf.keras` the Keras 2 that tensorflow-estimator is written for.

Since TensorFlow 2.16 `tf.keras` is Keras 3, which has no graph mode: heads, metrics and canned
models of tensorflow-estimator fail on it. Keras 2 lives on as the package `tf_keras`, and
TensorFlow takes it when the environment variable TF_USE_LEGACY_KERAS is set.

- `problems` says what stands against that, and changes nothing.
- `choose` sets the variable. Done before TensorFlow is imported, that is all. Done after, it works
  as long as nothing has used `tf.keras` yet, since TensorFlow decides at the first use; the search
  path of `import tensorflow.keras`, which TensorFlow decides at its import, is then set as well.
- `load` resolves every lazy Keras loader of TensorFlow now. They are not thread-safe, and
  Estimators build graphs in threads.
- `result_problems` looks at what came of it.

It never takes Keras 3 out of a process that already uses it, and never runs on TensorFlow 2.15,
where the variable without `tf_keras` breaks `tf.keras`.
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

from estimator_kit.compat.versions import Installed, minor_of

VARIABLE = "TF_USE_LEGACY_KERAS"

# The values that TensorFlow reads as yes; everything else is no.
_YES = ("1", "true", "True")

# Where `tensorflow.keras`, `tensorflow.compat.v1.keras`, ... are found as modules inside tf_keras.
_SEARCH_PATHS = (
    ("tensorflow", "_v2"),
    ("tensorflow.compat.v2", "_v2"),
    ("tensorflow.compat.v1", "_v1"),
)


def problems(installed: Installed) -> list[str]:
    """What stands against legacy Keras, a sentence each with its remedy."""
    assert installed.tensorflow is not None
    wanted = os.environ.get(VARIABLE)
    if installed.has_own_estimator:
        if wanted in _YES and installed.tf_keras is None:
            return [f"{VARIABLE}={wanted} without the package tf_keras breaks tf.keras: unset it"]
        return []

    found = []
    major, minor = minor_of(installed.tensorflow)
    if installed.tf_keras is None or minor_of(installed.tf_keras) != (major, minor):
        has = f"{installed.tf_keras} is" if installed.tf_keras else "none is"
        found.append(
            f"tf_keras {major}.{minor} (Keras 2) is needed, {has} installed: "
            f'pip install "tf_keras=={major}.{minor}.*"'
        )
    elif _keras_folder() is None:
        found.append(
            f"tf_keras {installed.tf_keras} is recorded as installed but cannot be found: "
            f'pip install --force-reinstall --no-deps "tf_keras=={major}.{minor}.*"'
        )
    if wanted and wanted not in _YES:
        found.append(f"{VARIABLE} is {wanted!r}, expected '1': set it so, or unset it")
    elif user := _user_of_keras_3():
        found.append(
            f"Keras 3 is already in use ({user}): import {__package__} before tensorflow, "
            f"or set {VARIABLE}=1"
        )
    return found


def choose(undo: contextlib.ExitStack) -> None:
    """Has TensorFlow take `tf_keras`; `undo` takes the choice back."""
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
    """What stands against the Keras that TensorFlow has taken in the end."""
    import tensorflow as tf

    module = str(tf.keras.Model.__module__)
    if module.split(".")[0] == "tf_keras":
        return []
    return [f"TensorFlow did not take tf_keras: tf.keras.Model is of {module}"]


def _set_variable(value: Optional[str]) -> None:
    if value is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = value


def _search_paths() -> list[tuple[str, str]]:
    """(module of TensorFlow, directory of tf_keras in which its `keras` is found)."""
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
    """Removes those that are set: by `choose`, or by TensorFlow's import after it."""
    for name, directory in paths:
        path = getattr(sys.modules.get(name), "__path__", [])
        if directory in path:
            path.remove(directory)


def _user_of_keras_3() -> Optional[str]:
    """What took Keras 3 in this process, or None."""
    if "tensorflow" not in sys.modules:
        return None
    for name in ("tensorflow.keras", "tensorflow.compat.v1.keras", "tensorflow.compat.v2.keras"):
        file = getattr(sys.modules.get(name), "__file__", None)
        # Keras 3 is found in keras/_tf_keras/keras, legacy Keras in tf_keras/api.
        if file and "tf_keras" not in PurePath(file).parts:
            return f"import {name}"
    for name, module in _tensorflow_modules():
        keras = vars(module).get("keras")
        # Looked up in the dict, since any other access would resolve a lazy loader.
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
