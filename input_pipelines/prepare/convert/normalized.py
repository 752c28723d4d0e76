"""The normalizers with NumPy, for checks of values without TensorFlow.

    normalized((Log1p(),), np.float32([3.0, -2.0]))     # [1.386, nan]

The steps and types are the same as in the TensorFlow ops of `feature_specs.reference.ops`.
So a number is finite here if it is finite there. The last bits may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from feature_specs.kinds import normalizers
from feature_specs.kinds.bounds import nearest_float32
from feature_specs.kinds.normalizers import Log1p, MinMax, Normalizer, ZScore

_TINY = np.finfo(np.float32).tiny


def normalized(steps: Sequence[Normalizer], values: np.ndarray) -> np.ndarray:
    """float32 [values]: the steps of int64 or float32 numbers. Some results may not be finite."""
    numbers: Any
    with np.errstate(all="ignore"):
        if values.dtype.kind == "i":
            first = normalizers.before_log(steps)
            numbers = _scaled(normalizers.scaling(steps[:first]), values)
            steps = steps[first:]
        else:
            numbers = values.astype(np.float32)
        for step in steps:
            if isinstance(step, Log1p):
                numbers = np.log1p(numbers)
            elif isinstance(step, ZScore):
                numbers = (numbers - _narrow(step.zscore.mean)) / _narrow(step.zscore.stddev)
            elif isinstance(step, MinMax):
                least, most = step.minmax.min, step.minmax.max
                numbers = (numbers - _narrow(least)) / _narrow(most - least)
            else:
                low, high = _narrow(step.clip.min), _narrow(step.clip.max)
                numbers = np.maximum(np.minimum(numbers, high), low)
        return np.asarray(numbers, np.float32)


def _scaled(scaling: normalizers.Scaling, values: np.ndarray) -> Any:
    whole = scaling.whole
    numbers = values.astype(np.float32)
    if whole:
        far = numbers - _narrow(whole)
        near = (values - np.int64(whole)).astype(np.float32)
        numbers = np.where(np.abs(far) < 2.0**62, near, far)
    for low, high in scaling.limits:
        numbers = np.maximum(np.minimum(numbers, _narrow(high - whole)), _narrow(low - whole))
    return (numbers - _narrow(scaling.center - whole)) / _narrow(scaling.scale)


def _narrow(number: Any) -> np.float32:
    narrow = np.float32(nearest_float32(number))
    # TensorFlow treats smaller numbers as 0.
    return narrow if abs(narrow) >= _TINY else np.float32(0)
