"""tf.contrib.metrics: the streaming metrics of tf_slim, `confusion_matrix`, and sets.

A streaming metric returns its value and the operation that updates it, as `tf.metrics` does, but
takes the predictions before the labels.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from . import _slim

_SLIM = _slim.load("tf_slim.metrics")

_OF_TENSORFLOW = {
    "confusion_matrix": tf.math.confusion_matrix,
    "set_difference": tf.sets.difference,
    "set_intersection": tf.sets.intersection,
    "set_size": tf.sets.size,
    "set_union": tf.sets.union,
}

_OF_SLIM = [name for name, value in vars(_SLIM).items() if callable(value) and name[0] != "_"]

__all__ = sorted({*_OF_TENSORFLOW, *_OF_SLIM})

OLD_PATHS = {
    "python.metrics": None,
    "python.metrics.classification": "tf_slim.metrics.classification",
    "python.ops": None,
    "python.ops.confusion_matrix_ops": None,
    "python.ops.histogram_ops": "tf_slim.metrics.histogram_ops",
    "python.ops.metric_ops": "tf_slim.metrics.metric_ops",
    "python.ops.set_ops": None,
}


def __getattr__(name: str) -> Any:
    if name in _OF_TENSORFLOW:
        return _OF_TENSORFLOW[name]
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_SLIM, name)
