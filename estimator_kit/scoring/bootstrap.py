"""Confidence intervals for the difference of two models on the same rows, by the bootstrap.

Each sample draws rows, or whole groups of rows, with replacement, as many as the data have. Both
models are scored on the same sample. The interval is given by the middle quantiles of the
differences (Efron and Tibshirani, 1993, chapter 13). Since both models see the same rows, an easy
or hard day does not affect the difference. Use groups for rows that depend on each other, such as
the rows of one user: with single rows, the intervals would be too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

Score = Callable[[Optional[NDArray]], float]


class Interval(NamedTuple):
    """A difference and its interval; NaN if undefined."""

    estimate: float
    low: float
    high: float


def difference(
    first: Score,
    second: Score,
    *,
    rows: int,
    groups: Optional[NDArray] = None,
    samples: int = 500,
    confidence: float = 0.95,
    seed: int = 1,
) -> Interval:
    """Returns first - second, with its interval.

    Args:
      first, second: each scores a model. The argument is how often each row was drawn (float64
        [rows]); None means once each.
      rows: the number of rows.
      groups: [rows], group numbers from 0. Rows of one group are drawn together. Without it, each
        row is drawn separately.
      samples: the number of draws. A draw with an undefined score (for example without a positive
        row) is left out. If more than a tenth are left out, the interval is undefined.
      confidence: the confidence of the interval.
      seed: the seed of the draws. The same seed gives the same interval.
    """
    estimate = first(None) - second(None)
    units = rows if groups is None else int(groups.max(initial=-1)) + 1
    if math.isnan(estimate) or units == 0:
        return Interval(math.nan, math.nan, math.nan)
    random = np.random.default_rng(seed)
    found = []
    for _ in range(samples):
        drawn = np.bincount(random.integers(0, units, units), minlength=units).astype(np.float64)
        counts = drawn if groups is None else drawn[groups]
        value = first(counts) - second(counts)
        if math.isfinite(value):
            found.append(value)
    if len(found) < 0.9 * samples:
        return Interval(estimate, math.nan, math.nan)
    outside = (1 - confidence) / 2
    low, high = np.quantile(found, [outside, 1 - outside])
    return Interval(estimate, float(low), float(high))
