"""Limits on gradients, which are applied before a step.

Rows of equal ids must be added up first. See `summed_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import tensorflow as tf


def clipped(
    gradients: Sequence[Any], clip_norm: Optional[float], clip_value: Optional[float]
) -> list[Any]:
    """Limits gradients. Sparse gradients stay sparse.

    Args:
      gradients: tensors, and IndexedSlices in which each id occurs once.
      clip_norm: the limit on the norm of all gradients together. They are scaled down to it.
      clip_value: the limit on the absolute value of each number, applied before `clip_norm`.

    With clip_value 1, the gradients 3 and -4 become 1 and -1. With clip_norm 1, they become 0.6 and
    -0.8.
    """
    limited = list(gradients)
    if clip_value is not None:
        limited = [_limited(gradient, clip_value) for gradient in limited]
    if clip_norm is not None:
        norm = global_norm(limited)
        for dtype in dict.fromkeys(each.dtype.base_dtype for each in limited):
            places = [i for i, each in enumerate(limited) if each.dtype.base_dtype == dtype]
            of_type = [limited[i] for i in places]
            scaled, _ = tf.clip_by_global_norm(of_type, clip_norm, tf.cast(norm, dtype))
            for i, each in zip(places, scaled):
                limited[i] = each
    return limited


def global_norm(gradients: Sequence[Any]) -> tf.Tensor:
    """The norm of all gradients together, float32. A model may have variables of other types."""
    return tf.linalg.global_norm([_as_float32(gradient) for gradient in gradients])


def _as_float32(gradient: Any) -> Any:
    if gradient.dtype.base_dtype == tf.float32:
        return gradient
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.cast(gradient, tf.float32)
    values = tf.cast(gradient.values, tf.float32)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)


def _limited(gradient: Any, limit: float) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.clip_by_value(gradient, -limit, limit)
    values = tf.clip_by_value(gradient.values, -limit, limit)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
