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
        limited, _ = tf.clip_by_global_norm(limited, clip_norm)
    return limited


def _limited(gradient: Any, limit: float) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.clip_by_value(gradient, -limit, limit)
    values = tf.clip_by_value(gradient.values, -limit, limit)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
