"""The normalizers of numeric columns as TensorFlow ops, for both readings of a spec.

normalizer_fn((Log1p(), Clip(...)))(x)   # the steps in order
side_by_side_fn([first, second], [1, 3])(x)   # the steps of two columns, float32 [rows, 1 + 3]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from feature_specs.kinds.normalizers import Clip, Log1p, MinMax, Normalizer, ZScore

# The numbers of a step: one, or one for each number of a row.
Constant = Any


def normalizer_fn(steps: tuple[Normalizer, ...]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that applies the steps in order to a tensor of any shape.

    The function returns float32 of the same shape. log1p of a number of -1 or less is not finite.
    The input checks report such numbers.
    """
    return side_by_side_fn([steps], [1])


def side_by_side_fn(
    columns: Sequence[tuple[Normalizer, ...]], widths: Sequence[int]
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Like `normalizer_fn`, for several columns side by side, [rows, sum of the widths].

    Args:
      columns: the steps of each column. All columns have the same kinds of steps in the same order.
      widths: how many numbers of a row each column has.
    """

    def constant(numbers: Sequence[float]) -> Constant:
        if len(set(numbers)) == 1:
            return numbers[0]
        return np.repeat(np.array(numbers, np.float32), widths)

    def normalize(values: tf.Tensor) -> tf.Tensor:
        values = tf.cast(values, tf.float32)
        for steps in zip(*columns):
            values = _apply(steps, constant, values)
        return values

    return normalize


def _apply(
    steps: Sequence[Any], constant: Callable[[Sequence[float]], Constant], values: tf.Tensor
) -> tf.Tensor:
    """Applies one step of each column."""
    kind = type(steps[0])
    if kind is Log1p:
        return tf.math.log1p(values)
    if kind is ZScore:
        means = constant([step.zscore.mean for step in steps])
        return (values - means) / constant([step.zscore.stddev for step in steps])
    if kind is MinMax:
        least = constant([step.minmax.min for step in steps])
        return (values - least) / constant([s.minmax.max - s.minmax.min for s in steps])
    assert kind is Clip, steps
    low, high = ([getattr(s.clip, end) for s in steps] for end in ("min", "max"))
    return tf.clip_by_value(values, constant(low), constant(high))
