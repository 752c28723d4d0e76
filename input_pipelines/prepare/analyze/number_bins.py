"""Puts the numbers of two data sets into common bins, from their quantiles.

    bins = common_bins(before.numbers, now.numbers, values=20_000)
    [(bin.name, bin.before, bin.now) for bin in bins]      # shares of the finite values

The first bins are ten of about equal weight, over both sides together. A bin is split where that
adds more to the Jensen-Shannon divergence than the noise of a sample. So numbers that moved far
away have a bin, even if few rows have them, and equal distributions have few bins.

Quantiles are 1% apart. Between two of them, both sides are assumed to have the same distribution.
So what the quantiles do not show adds nothing to the divergence.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, Optional

from feature_specs.statistics import PERCENTILES, Numbers
from input_pipelines.prepare.analyze.numbers import Number, is_whole

_BINS = 10

# What a further bin must add to the divergence, in addition to the noise of a sample.
_LEAST_GAIN = 0.001
# The noise of a sample of n values is about this number divided by n.
_NOISE = 5.0

# Each end of a bin is wrong by up to a percentile. A further bin must show a larger difference.
_ERROR = 0.0205


@dataclasses.dataclass(frozen=True)
class Bin:
    """A bin and the share of the finite values that are in it, on both sides."""

    name: str
    before: float
    now: float


class _End(NamedTuple):
    """The end of a bin: a number that is still inside, or not (`inside` is False)."""

    number: Number
    inside: bool


def divergence(p: float, q: float) -> float:
    """The part in the Jensen-Shannon divergence, in bits, of a bin with the shares p and q."""
    return _bits(p, (p + q) / 2) / 2 + _bits(q, (p + q) / 2) / 2


def common_bins(before: Optional[Numbers], now: Optional[Numbers], *, values: int) -> list[Bin]:
    """The bins of two distributions, from the smallest numbers to the largest.

    Args:
      before, now: the distributions; None if a side has no finite value.
      values: the number of values of the smaller side.
    """
    both = [None if numbers is None else _Side(numbers.quantiles) for numbers in (before, now)]
    sides = [side for side in both if side is not None]
    if not sides:
        return []
    points = _points(sides)
    shares = [
        [0.0 if side is None else side.share(at, other or side) for at in points]
        for side, other in (both, both[::-1])
    ]
    ends = _tenths(shares, len(sides))
    if len(sides) == 2:
        ends = _split(shares, ends, _LEAST_GAIN + _NOISE / values)
    names = _names([points[i] for i in ends])
    return [Bin(name, *_between(shares, *at)) for name, at in zip(names, zip([-1, *ends], ends))]


def _points(sides: list[_Side]) -> list[_End]:
    """All quantiles, which are possible ends of bins.

    A bin may also end below a number that clearly more values of one side have.
    """
    points = []
    for number in sorted({number for side in sides for number in side.quantiles}):
        equal = [side.quantiles.count(number) for side in sides]
        if max(equal) - min(equal) > 2:
            points.append(_End(number, False))
        points.append(_End(number, True))
    return points


class _Side:
    """The distribution of one side, from its quantiles."""

    def __init__(self, quantiles: Sequence[Number]):
        self.quantiles = quantiles
        # The number of percentiles before each quantile, without those that are one number.
        steps = (float(a < b) for a, b in zip(quantiles, quantiles[1:]))
        self._spread = list(itertools.accumulate(steps, initial=0.0))

    def share(self, at: _End, other: _Side) -> float:
        """The share of values up to an end. Between quantiles, it grows as in `other`."""
        i, step = self._place(at)
        if 0 < step < 1:
            ends = _End(self.quantiles[i], True), at, _End(self.quantiles[i + 1], False)
            first, here, last = map(other._spread_to, ends)
            # If the other side has no values here, the values are at the next quantile.
            step = (here - first) / (last - first) if last > first else 0.0
        return (i + step) / PERCENTILES

    def _spread_to(self, at: _End) -> float:
        i, step = self._place(at)
        return self._spread[i] + step

    def _place(self, at: _End) -> tuple[int, float]:
        """The quantile before an end, and how far it is on the way to the next one, 0 to 1."""
        bisect_ = bisect.bisect_right if at.inside else bisect.bisect_left
        i = bisect_(self.quantiles, at.number) - 1
        if i < 0 or i == PERCENTILES:
            return max(i, 0), 0.0
        low, high = self.quantiles[i], self.quantiles[i + 1]
        return i, (at.number - low) / (high - low)


def _tenths(shares: list[list[float]], sides: int) -> list[int]:
    """The places of the ends of ten bins of about equal weight. The last one is the last point."""
    upto = [math.fsum(both) / sides for both in zip(*shares)]
    # Subtract a tiny number, so that a whole tenth is not rounded up.
    ends = {bisect.bisect_left(upto, i / _BINS - 1e-9) for i in range(1, _BINS)}
    return sorted({*ends, len(upto) - 1})


def _split(shares: list[list[float]], ends: list[int], gain: float) -> list[int]:
    """Adds the end that adds most to the divergence of its bin, while it adds more than `gain`."""

    def part(first: int, last: int) -> float:
        return divergence(*_between(shares, first, last))

    def differ(first: int, last: int) -> bool:
        before, now = _between(shares, first, last)
        return abs(before - now) > _ERROR

    result = []
    waiting = list(zip([-1, *ends], ends))
    while waiting:
        first, last = waiting.pop()
        inner = [i for i in range(first + 1, last) if differ(first, i) or differ(i, last)]
        at = max(inner, key=lambda i: part(first, i) + part(i, last), default=None)
        if at is None or part(first, at) + part(at, last) - part(first, last) <= gain:
            result.append(last)
        else:
            waiting += [(first, at), (at, last)]
    return sorted(result)


def _between(shares: list[list[float]], first: int, last: int) -> list[float]:
    """The share of each side between two places; -1 is before the first."""
    return [max(side[last] - (side[first] if first >= 0 else 0.0), 0.0) for side in shares]


def _bits(p: float, m: float) -> float:
    return p * math.log2(p / m) if p > 0 else 0.0


def _names(ends: list[_End]) -> list[str]:
    """The names of bins; the last one has no end."""
    if len(ends) == 1:
        return ["any number"]
    *inner, _ = ends
    first, last = inner[0], inner[-1]
    return [
        f"{'up to' if first.inside else 'below'} {_shown(first.number)}",
        *map(_name, inner, inner[1:]),
        f"{'over' if last.inside else 'from'} {_shown(last.number)}",
    ]


def _name(low: _End, high: _End) -> str:
    if low.number == high.number:
        return _shown(high.number)
    begin = f"{'over' if low.inside else 'from'} {_shown(low.number)}"
    return f"{begin} {'to' if high.inside else 'to below'} {_shown(high.number)}"


def _shown(number: Number) -> str:
    """A number in messages: integers with all digits, other numbers with six."""
    return str(int(number)) if is_whole(number) else f"{number:.6g}"
