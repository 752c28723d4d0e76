"""Confidence intervals of differences of two models on the same rows, by the bootstrap.

Rows, or whole groups of rows, are drawn anew with replacement, as many as there are, and both
models are scored on each draw; the interval is that of the middle quantiles of the differences
(Efron and Tibshirani, 1993, chapter 13). Since both models see the same draw, what makes a day easy
or hard falls out of the difference. Groups are for rows that depend on each other, as those of one
user: drawing them one by one would take a few users for many rows and make intervals too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

Score = Callable[[Optional[NDArray]], float]


class Interval(NamedTuple):
    """A difference and where it is likely to be; NaN where it is not defined."""

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
    """first - second, with its interval.

    Args:
      first, second: score a model, given how often each row was drawn (float64 [rows]), or None
        for once each.
      rows: how many there are.
      groups: [rows], numbers from 0; rows of one are drawn together. Each by itself without it.
      samples: draws. Those of which a score is not defined (as without a positive row) are left
        out; where more than a tenth is, so is the interval.
      confidence: of the interval.
      seed: of the draws; the same seed gives the same interval.
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
