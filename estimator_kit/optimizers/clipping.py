"""Limits on gradients, which are applied before a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import tensorflow as tf


def clipped(
    gradients: Sequence[Any], clip_norm: Optional[float], clip_value: Optional[float]
) -> list[Any]:
    """Limits gradients. Sparse gradients stay sparse.

    Args:
      gradients: tensors and IndexedSlices.
      clip_norm: the limit on the norm of all gradients together. They are scaled down to it.
      clip_value: the limit on the absolute value of each number, applied before `clip_norm`. The
        gradients that several records have for one row of a table are added up first.

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
    rows, place = tf.unique(gradient.indices)
    total = tf.math.unsorted_segment_sum(gradient.values, place, tf.size(rows))
    return tf.IndexedSlices(tf.clip_by_value(total, -limit, limit), rows, gradient.dense_shape)
