"""Imports the package tensorflow-recommenders-addons if a spec has a dynamic embedding.

The import patches TensorFlow's graph-mode optimizers and the placement of variables in the whole
process. Code without dynamic embeddings gives the same results as before, but the kit imports the
package only where it is needed. Its hash tables are ops of a separate library. Every process that
loads an export needs this library, too: use `load_ops_of` with Python, and `op_libraries` with
TensorFlow's C++ loader.
"""

from __future__ import annotations

import glob
import importlib
import importlib.util
import logging
import os
import warnings
from typing import Any

import tensorflow as tf

from estimator_kit.errors import ConfigError

# The newest TensorFlow version that the package supports.
_NEWEST = (2, 15)

_INSTALL = "pip install 'estimator-kit[dynamic]'"
_PACKAGE = "tensorflow_recommenders_addons"

# The prefix of the names of the package's ops in a serialized graph.
_OPS = b"TFRA>"


# Warnings that the package logs for each op: it uses TensorFlow's op instead of its GPU
# op, and it fills a slot with one constant instead of one constant per row.
_HARMLESS = (
    "`tfra.dynamic_embedding.data_flow.",
    "is not running on full-size initialization mode",
)


class _Quiet(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not any(part in message for part in _HARMLESS)


_QUIET = _Quiet()


def library(what: str) -> Any:
    """The module `tensorflow_recommenders_addons.dynamic_embedding`.

    Args:
      what: what needs the package, for the start of the message.

    Raises:
      ConfigError: the package is not installed, or TensorFlow is too new for it.
    """
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version > _NEWEST:
        raise ConfigError(
            f"{what} needs tensorflow-recommenders-addons 0.7.2, which needs TensorFlow 2.15.1 or "
            f"older, got {tf.__version__}. Run it in an environment with TensorFlow 2.15.1 "
            f"({_INSTALL})."
        )
    logger = logging.getLogger("tensorflow")
    level = logger.level
    try:
        # The package warns about Horovod, which is optional, about a class, and about
        # pkg_resources.
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(f"{_PACKAGE}.dynamic_embedding")
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(_PACKAGE):
            raise ConfigError(
                f"{what} needs the package 'tensorflow-recommenders-addons'. Install it with: "
                f"{_INSTALL}"
            ) from error
        raise ConfigError(
            f"{what} needs tensorflow-recommenders-addons, but the installed version cannot be "
            f"imported ({error}). Install the right version with: {_INSTALL}"
        ) from error
    finally:
        logger.setLevel(level)
        logger.addFilter(_QUIET)


def is_dynamic(export_dir: str) -> bool:
    """Whether a SavedModel has ops of the package. False if the path has no SavedModel file."""
    path = os.path.join(export_dir, "saved_model.pb")
    if not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return False
    with tf.io.gfile.GFile(path, "rb") as file:
        return _OPS in file.read()


def load_ops_of(export_dir: str) -> None:
    """Loads the ops of the package if a SavedModel needs them.

    Raises:
      ConfigError: the SavedModel needs them, but the package cannot be imported.
    """
    if is_dynamic(export_dir):
        library(f"{export_dir}, a SavedModel with dynamic embeddings,")


def op_libraries(export_dir: str) -> list[str]:
    """The paths of the shared libraries that a loader needs for a SavedModel. Usually empty.

    Raises:
      ConfigError: see `load_ops_of`.
    """
    if not is_dynamic(export_dir):
        return []
    load_ops_of(export_dir)
    module = importlib.util.find_spec(_PACKAGE)
    assert module is not None and module.origin is not None
    folder = os.path.join(os.path.dirname(module.origin), "dynamic_embedding", "core")
    return sorted(glob.glob(os.path.join(glob.escape(folder), "_cuckoo_hashtable_ops.so")))
