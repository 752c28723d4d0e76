"""The normalizers of numeric columns as TensorFlow ops, for both readings of a spec.

normalizer_fn((Log1p(), Clip(...)))(x)   # the steps in order
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from feature_specs.kinds.normalizers import Clip, Log1p, MinMax, Normalizer, ZScore


def normalizer_fn(steps: tuple[Normalizer, ...]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function that applies the steps in order to a tensor of any shape.

    The function returns float32 of the same shape. log1p of a number of -1 or less is not finite.
    The input checks report such numbers.
    """

    def normalize(values: tf.Tensor) -> tf.Tensor:
        values = tf.cast(values, tf.float32)
        for step in steps:
            values = _apply(step, values)
        return values

    return normalize


def _apply(step: Normalizer, values: tf.Tensor) -> tf.Tensor:
    if isinstance(step, Log1p):
        return tf.math.log1p(values)
    if isinstance(step, ZScore):
        return (values - step.zscore.mean) / step.zscore.stddev
    if isinstance(step, MinMax):
        return (values - step.minmax.min) / (step.minmax.max - step.minmax.min)
    assert isinstance(step, Clip), step
    return tf.clip_by_value(values, step.clip.min, step.clip.max)
