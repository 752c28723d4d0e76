"""tf.contrib.cluster_resolver: the names of `tf.distribute.cluster_resolver`."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

_SOURCE = tf.distribute.cluster_resolver

__all__ = [name for name in dir(_SOURCE) if not name.startswith("_")]

OLD_PATHS = ("python.training",)


def __getattr__(name: str) -> Any:
    return getattr(_SOURCE, name)
