"""The package tensorflow-recommenders-addons, imported where a spec has a dynamic embedding.

Its import changes TensorFlow's graph-mode optimizers and the placement of variables for the whole
process, to what they do for everything else already; so nothing imports it that does not need it.
Its hash tables are ops of a library of their own, which also every process needs that loads an
export: `load_ops_of` for those with Python, `op_libraries` for TensorFlow's C++ loader.
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

# The newest TensorFlow that the package is built for.
_NEWEST = (2, 15)

_INSTALL = "pip install estimator-kit[dynamic]"
_PACKAGE = "tensorflow_recommenders_addons"

# How the names of the package's ops begin in a serialized graph.
_OPS = b"TFRA>"


# What the package warns of for each op: that it takes TensorFlow's op in the place of one of its
# own, which is for GPUs, and fills a slot with one constant instead of one for each row.
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
      what: who needs it, which begins the message.

    Raises:
      ConfigError: the package is not installed, or TensorFlow is too new for it.
    """
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version > _NEWEST:
        raise ConfigError(
            f"{what} needs tensorflow-recommenders-addons 0.7.2, which needs TensorFlow 2.15.1 or "
            f"older, and this is {tf.__version__}; run it in an environment with TensorFlow "
            f"2.15.1 ({_INSTALL})"
        )
    logger = logging.getLogger("tensorflow")
    level = logger.level
    try:
        # It warns of Horovod, which it can do without, of a class, and of pkg_resources.
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(f"{_PACKAGE}.dynamic_embedding")
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(_PACKAGE):
            raise ConfigError(
                f"{what} needs the package 'tensorflow-recommenders-addons'; install it with: "
                f"{_INSTALL}"
            ) from error
        raise ConfigError(
            f"{what} needs tensorflow-recommenders-addons, and the installed one cannot be "
            f"imported ({error}); install the one that fits with: {_INSTALL}"
        ) from error
    finally:
        logger.setLevel(level)
        logger.addFilter(_QUIET)


def is_dynamic(export_dir: str) -> bool:
    """Whether a SavedModel has ops of the package; False where there is none at the path."""
    path = os.path.join(export_dir, "saved_model.pb")
    if not tf.io.gfile.exists(path):
        return False
    with tf.io.gfile.GFile(path, "rb") as file:
        return _OPS in file.read()


def load_ops_of(export_dir: str) -> None:
    """Makes the ops known that a SavedModel needs beside TensorFlow's own.

    Raises:
      ConfigError: it needs them, and they cannot be had here.
    """
    if is_dynamic(export_dir):
        library(f"{export_dir}, a SavedModel with dynamic embeddings,")


def op_libraries(export_dir: str) -> list[str]:
    """The paths of the shared libraries that a loader needs for a SavedModel; mostly none.

    Raises:
      ConfigError: as `load_ops_of`.
    """
    if not is_dynamic(export_dir):
        return []
    load_ops_of(export_dir)
    found = importlib.util.find_spec(_PACKAGE)
    assert found is not None and found.origin is not None
    folder = os.path.join(os.path.dirname(found.origin), "dynamic_embedding", "core")
    return sorted(glob.glob(os.path.join(glob.escape(folder), "_cuckoo_hashtable_ops.so")))
