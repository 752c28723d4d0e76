"""Imports the package tf_slim, which has most of tf.contrib.layers, slim, framework and metrics.

Its last release, 1.1.0, uses names that TensorFlow 2.15 to 2.21 have moved; private_paths.py has
put them back. This module never changes tf_slim.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def load(name: str = "tf_slim") -> ModuleType:
    """tf_slim or a module of it.

    Raises:
      ModuleNotFoundError: tf_slim is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "tf_slim":
            raise
        raise ModuleNotFoundError(
            "this part of tf.contrib needs the package tf_slim. Install it with "
            "`pip install tf_slim==1.1.0`.",
            name="tf_slim",
        ) from None
