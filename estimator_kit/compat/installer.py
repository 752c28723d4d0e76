"""Installs everything, once for each process: first all checks, then all changes.

The order is the contract. Versions are checked before TensorFlow is imported, and private names
before anything in TensorFlow is changed. One error lists all problems of a kind. A failed
installation is reverted, so it can be repeated after the cause is removed.

On TensorFlow 2.15 only versions are checked, and TensorFlow is not even imported.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import warnings
from typing import Optional

from . import (
    added_modules,
    estimator_patches,
    input_checkpoints,
    legacy_keras,
    private_names,
    private_paths,
    removed_names,
    restored_names,
    tpu,
    versions,
)
from .errors import UnsupportedTensorFlowError

_TRAINING = "tensorflow.python.distribute.estimator_training"

_lock = threading.Lock()
_installed = False


def install() -> None:
    """Makes `tf.estimator` work. Does nothing on TensorFlow 2.15, or if it is already installed.

    You can call it from any thread, any number of times.

    Raises:
      UnsupportedTensorFlowError: `tf.estimator` cannot work here. The message has the TensorFlow
        version, everything that is missing and how to get it, and the supported versions. Nothing
        in TensorFlow was changed.
    """
    global _installed
    with _lock:
        if _installed:
            return
        if "tensorflow.estimator" in sys.modules and _TRAINING in sys.modules:
            # The kit and estimator-kit-compat are both in this process.
            _installed = True
            return
        installed = versions.read()
        if installed.tensorflow is None:
            installed = read_by_importing()
        _raise_if(installed, versions.problems(installed) + legacy_keras.problems(installed))
        if not installed.has_own_estimator:
            with contextlib.ExitStack() as undo:
                try:
                    _install(installed, undo)
                except UnsupportedTensorFlowError:
                    raise
                except Exception as error:  # An untested TensorFlow may raise any error.
                    problem = f"{type(error).__name__}: {error}"
                    _raise_if(installed, private_names.missing() or [problem], cause=error)
                undo.pop_all()
        _installed = True


def _install(installed: versions.Installed, undo: contextlib.ExitStack) -> None:
    legacy_keras.choose(undo)
    import tensorflow as tf

    _raise_if(installed, private_names.missing())
    version = tf.__version__
    if versions.minor_of(version) > versions.SUPPORTED.last:
        warnings.warn(
            f"TensorFlow {version} is newer than the supported versions {versions.SUPPORTED}. All "
            "private names exist, but no test ran with it.",
            stacklevel=4,
        )

    restored_names.import_holders()
    legacy_keras.load()
    _raise_if(installed, legacy_keras.result_problems())
    # An earlier import without this package may have failed and left partial modules.
    _forget_estimator()
    undo.callback(_forget_estimator)
    private_paths.install(undo)
    restored_names.install_export_names(undo)
    tpu.install_before_estimator(undo)
    _install_training(undo)
    restored_names.install_namespaces(undo)
    restored_names.install_old_paths(undo)
    tpu.install_after_estimator(undo)
    estimator_patches.install_pandas_strings(undo)
    estimator_patches.install_keras_check(undo)
    input_checkpoints.install(undo)
    removed_names.explain(undo)


def _forget_estimator() -> None:
    for name in list(sys.modules):
        if name.split(".")[0] == "tensorflow_estimator":
            del sys.modules[name]


def _install_training(undo: contextlib.ExitStack) -> None:
    if _TRAINING in sys.modules:
        return
    from . import estimator_training

    added_modules.add(_TRAINING, estimator_training, undo)


def read_by_importing() -> versions.Installed:
    """The versions if TensorFlow is installed under an unknown package name.

    Raises:
      UnsupportedTensorFlowError: TensorFlow is not installed, or cannot be imported.
    """
    try:
        importlib.import_module("tensorflow")
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise UnsupportedTensorFlowError(
                f"TensorFlow cannot be imported: {error}. Install it again with its dependencies."
            ) from error
        raise UnsupportedTensorFlowError(
            f"TensorFlow is not installed. Supported: TensorFlow {versions.SUPPORTED}. Install it "
            "with `pip install tensorflow tf_keras tensorflow-estimator==2.15.0`."
        ) from error
    return versions.read()


def _raise_if(
    installed: versions.Installed, problems: list[str], cause: Optional[Exception] = None
) -> None:
    if not problems:
        return
    raise UnsupportedTensorFlowError(
        f"tf.estimator cannot work on TensorFlow {installed.tensorflow}:\n"
        + "".join(f"  - {problem}\n" for problem in problems)
        + f"Supported: TensorFlow {versions.SUPPORTED}. Nothing was changed."
    ) from cause
