"""Chooses the buckets of a number from its distribution, and finds long tails.

    rest = rest_of(numbers, counts)       # for amounts that are mostly 0: the other values
    cut, why = buckets(numbers, rest, 10, "statistics.json")
    long_tail(numbers, rest)

If more than half of the values are equal, most quantiles of all values are this value, and do not
describe the rest. So this value gets a separate bucket, and the rest is cut by its own quantiles.
Only reads statistics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from feature_specs.kinds.bounds import cuts, just_above
from feature_specs.statistics import PERCENTILES, Numbers
from input_pipelines.prepare.analyze.numbers import Number, exact_quantiles, with_commas

# A distribution with a larger `skewness` is skewed. An exponential distribution has 1.5.
_SKEWED = 1.0


@dataclasses.dataclass(frozen=True)
class Rest:
    """The rest of the values if more than half of them are equal.

    Attributes:
      value: the most frequent value.
      share: its share of all values. A whole percent if it is estimated.
      quantiles: sorted quantiles of the rest. They are exact, or the percentiles of all values that
        differ from `value`. Empty if counts are unknown and the rest is less than a hundredth.
      exact: whether the quantiles are exact, so that no value lies between them and `value`.
      below, above: whether any value is smaller, or larger, than `value`.
      integers: whether the feature is int64.
    """

    value: Number
    share: float
    quantiles: tuple[Number, ...]
    exact: bool
    below: bool
    above: bool
    integers: bool

    def boundaries(self, buckets: int) -> list[Number]:
        """Where to cut: a bucket for `value`, and up to `buckets` equal parts of the rest."""
        last = len(self.quantiles) - 1
        limits = {
            self.quantiles[round(last * i / buckets)]
            for i in range(1, buckets if self.quantiles else 0)
        }
        if self.below:
            limits -= {*self.quantiles[:1]}  # No value is below the smallest one.
            limits.add(self.value)
        if self.above:
            above = [other for other in self.quantiles if other > self.value]
            next_ = above[0] if above and self.exact else just_above(self.value, self.integers)
            limits.add(next_)
        return sorted(limits)


def rest_of(numbers: Numbers, counts: Optional[Mapping[Any, int]]) -> Optional[Rest]:
    """The rest of the values if more than half of them are equal; otherwise None.

    Args:
      numbers: the distribution of a feature.
      counts: how often each value occurs, if that is known.
    """
    if numbers.min == numbers.max:
        return None
    value = numbers.quantiles[PERCENTILES // 2]  # If more than half are equal, so is the median.
    sides = numbers.min < value, numbers.max > value, isinstance(numbers.min, int)
    if counts is not None:
        share = counts[value] / sum(counts.values())
        if share <= 0.5:
            return None
        others = {other: n for other, n in counts.items() if other != value}
        return Rest(value, share, exact_quantiles(others), True, *sides)
    same = sum(quantile == value for quantile in numbers.quantiles)
    if same <= PERCENTILES // 2 + 1:
        return None
    percentiles = tuple(q for q in numbers.quantiles[1:-1] if q != value)
    return Rest(value, (same - 1) / PERCENTILES, percentiles, False, *sides)


def buckets(
    numbers: Numbers, rest: Optional[Rest], count: int, statistics: str
) -> Optional[tuple[dict[str, Any], str]]:
    """The options of a bucketized column, and their reason; None if the values cannot be cut.

    Args:
      numbers: the distribution of the feature.
      rest: the result of `rest_of`.
      count: the wanted number of buckets of about equal weight.
      statistics: the file with `numbers`.
    """
    learns = "a linear model learns a weight for each"
    if rest is not None:
        limits = rest.boundaries(count)
        value = with_commas(rest.value)
        return {"boundaries": limits}, (
            f"{100 * rest.share:.3g}% of the values are {value}, which gets a separate bucket; the "
            f"rest is cut into {len(limits)} of about equal weight; {learns}"
        )
    limits = cuts(numbers.quantiles, count)
    if len(limits) < 2:
        return None
    has_all_cuts = len(limits) == count - 1
    cut = {"quantiles": count, "statistics": statistics} if has_all_cuts else {"boundaries": limits}
    return cut, (
        f"{len(limits) + 1} buckets of about equal weight: tenths of the values"
        f"{'' if has_all_cuts else ', equal ones merged'}; {learns}"
    )


def long_tail(numbers: Numbers, rest: Optional[Rest]) -> bool:
    """Whether non-negative numbers have a long tail to the right.

    If most values are equal, only the rest decides. For example, most of 0 to 52 weeks may be 0,
    but that does not make the rest a tail.
    """
    values = (numbers.quantiles if rest is None else rest.quantiles)[1:-1]
    if numbers.min < 0 or len(values) < 3:
        return False
    low, middle, high = (float(values[i]) for i in (0, len(values) // 2, -1))
    far = high - middle > 5 * (middle - low) and high > 10
    return far and skewness(values) > _SKEWED


def skewness(quantiles: Sequence[Number]) -> float:
    """The third standardized moment of some quantiles; 0 for symmetric or equal quantiles.

    For the inner 99 percentiles of a uniform distribution, this is 0. For an exponential
    distribution it is 1.5 (not 2, because the tail is cut), and -1.5 for a mirrored one.
    """
    values = np.asarray(quantiles, np.float64)
    away = values - values.mean()
    variance = float(np.square(away).mean())
    return float((away**3).mean() / variance**1.5) if variance > 0 else 0.0
