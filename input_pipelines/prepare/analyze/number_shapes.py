"""What the distribution of a number asks for: where it is cut, and whether it has a long tail.

    rest = rest_of(numbers, counts)       # amounts of which most are 0: what the others are
    cut, why = buckets(numbers, rest, 10, "statistics.json")
    long_tail(numbers, rest)

Where more than half of the values are one, quantiles of all values merge into it, and say nothing
of the others. So it gets a bucket of its own, and the others are cut by their own quantiles. Reads
statistics only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from feature_specs.statistics import PERCENTILES, Numbers
from input_pipelines.prepare.analyze.numbers import exact_quantiles

Number = Union[int, float]

# From here on a distribution is skewed. As `skewness` measures it, an exponential one is 1.5.
_SKEWED = 1.0


@dataclasses.dataclass(frozen=True)
class Rest:
    """The values beside the one that more than half of all are.

    Attributes:
      value: that one.
      share: of the values that it is; of an estimate a whole percent.
      quantiles: of the others, in order; exact, or those percentiles of all values that are not it.
        Without any where fewer than a hundredth are others and their counts are not known.
      exact: whether these are all values, so that there is none between them and `value`.
      below, above: whether any is smaller, and larger.
    """

    value: Number
    share: float
    quantiles: tuple[Number, ...]
    exact: bool
    below: bool
    above: bool

    def boundaries(self, buckets: int) -> list[float]:
        """Where to cut: `value` alone, and the others in up to `buckets` parts of equal weight."""
        last = len(self.quantiles) - 1
        cuts = {
            float(self.quantiles[round(last * i / buckets)])
            for i in range(1, buckets if self.quantiles else 0)
        }
        if self.below:
            cuts -= {float(other) for other in self.quantiles[:1]}  # Nothing is below the smallest.
            cuts.add(float(self.value))
        if self.above:
            above = [float(other) for other in self.quantiles if other > self.value]
            cuts.add(above[0] if above and self.exact else _after(self.value))
        return sorted(cuts)


def rest_of(numbers: Numbers, counts: Optional[Mapping[Any, int]]) -> Optional[Rest]:
    """What is beside the value that more than half of all are; None where none is.

    Args:
      numbers: a feature's.
      counts: how often each value occurs, where that is known.
    """
    if numbers.min == numbers.max:
        return None
    value = numbers.quantiles[PERCENTILES // 2]  # Of more than half, one is in the middle.
    sides = numbers.min < value, numbers.max > value
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
    """What a bucketized column says beside its source, and why; None where nothing can be cut.

    Args:
      numbers: of the feature.
      rest: of the same, as `rest_of` gives it.
      count: buckets of about equal weight that are wanted.
      statistics: the file with `numbers`.
    """
    learns = "a linear model learns a weight for each"
    if rest is not None:
        cuts = rest.boundaries(count)
        value = f"{rest.value:,}" if isinstance(rest.value, int) else f"{rest.value:.6g}"
        return {"boundaries": cuts}, (
            f"{100 * rest.share:.3g}% of the values are {value}, which is a bucket of its own; the "
            f"others are cut into {len(cuts)} of about equal weight; {learns}"
        )
    cuts = numbers.cuts(count)
    if len(cuts) < 2:
        return None
    whole = len(cuts) == count - 1
    cut = {"quantiles": count, "statistics": statistics} if whole else {"boundaries": cuts}
    return cut, (
        f"{len(cuts) + 1} buckets of about equal weight: tenths of the values"
        f"{'' if whole else ', equal ones merged'}; {learns}"
    )


def long_tail(numbers: Numbers, rest: Optional[Rest]) -> bool:
    """Whether numbers from 0 on have a long tail to the right.

    A value that most are makes no tail of the others: of 0 to 52 weeks of which most are 0, the
    others decide.
    """
    values = (numbers.quantiles if rest is None else rest.quantiles)[1:-1]
    if numbers.min < 0 or len(values) < 3:
        return False
    low, middle, high = (float(values[i]) for i in (0, len(values) // 2, -1))
    far = high - middle > 5 * (middle - low) and high > 10
    return far and skewness(values) > _SKEWED


def skewness(quantiles: Sequence[Number]) -> float:
    """The third standardized moment of some quantiles; 0 of symmetric ones and of equal ones.

    Of the inner 99 percentiles: 0 for a uniform distribution, 1.5 for an exponential one, whose own
    is 2 (its tail is cut), and -1.5 for one that is mirrored.
    """
    values = np.asarray(quantiles, np.float64)
    away = values - values.mean()
    variance = float(np.square(away).mean())
    return float((away**3).mean() / variance**1.5) if variance > 0 else 0.0


def _after(value: Number) -> float:
    """The smallest number that is surely another one: the next integer, or the next float32."""
    if isinstance(value, int):
        return float(value + 1)
    if value == 0:
        return float(np.finfo(np.float32).tiny)  # Smaller ones may be taken for 0.
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))
