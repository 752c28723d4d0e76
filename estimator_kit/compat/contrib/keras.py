"""tf.contrib.keras: the names of `tf.keras`, which is Keras 2."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

__all__ = """
    activations applications backend callbacks constraints datasets initializers layers losses
    metrics models optimizers preprocessing regularizers utils
""".split()

REMEDIES = {"wrappers": "Use the package scikeras (pip install scikeras)."}


def __getattr__(name: str) -> Any:
    return getattr(tf.keras, name)
