"""Limits on gradients, before a step is taken with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import tensorflow as tf


def clipped(
    gradients: Sequence[Any], clip_norm: Optional[float], clip_value: Optional[float]
) -> list[Any]:
    """Gradients within limits; sparse ones stay sparse.

    Args:
      gradients: tensors and IndexedSlices.
      clip_norm: limit on the norm of all of them together: they are scaled down to it.
      clip_value: limit on each number, up and down; comes before the norm. The parts of one row of
        a table, as a batch has them from several records, are added up before.

    The gradients 3 and -4 become 1 and -1 with the value 1, and 0.6 and -0.8 with the norm 1.
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
