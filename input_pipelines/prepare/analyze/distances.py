"""Measures how far apart two distributions of a feature are: three measures, each from 0 to 1.

TensorFlow Data Validation has the same measures. Here they only need analyzed statistics, so an
earlier `statistics.json` can be compared without its records. Each measure is symmetric, and 0 for
equal statistics. If only one side has values, the distance is 1, because no value is common.

    l_infinity      categories    max over values v of |p(v) - q(v)|
    jensen_shannon  numbers       KL(P || M) / 2 + KL(Q || M) / 2, M = (P + Q) / 2, logarithms to 2
    missing         any feature   |share of records without a value before - now|

The values of a list count separately, over all records. Pure arithmetic: reads no records or files.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Optional

from feature_specs.statistics import FeatureStatistics
from input_pipelines.prepare.analyze.number_bins import common_bins, divergence

# How many of the values or bins that moved most are shown.
_EXAMPLES = 3

# A distribution has the values with at least this share on one side, and no more than the most. A
# value that few rows have may identify a person.
_LEAST_SHARE, _MOST_PARTS = 0.01, 12
_OTHERS = "all other values"

_NO_TEXT = "(no text)"


@dataclasses.dataclass(frozen=True)
class Part:
    """A value or a bin, with its shares on both sides, each from 0 to 1."""

    name: str
    before: float
    now: float


@dataclasses.dataclass(frozen=True)
class Distance:
    """A distance, and what caused it.

    Attributes:
      value: 0 to 1.
      moved: the values or bins that moved most, with their shares before and now, as text.
      parts: both distributions, to draw them. Rare values are one part together.
    """

    value: float
    moved: tuple[str, ...] = ()
    parts: tuple[Part, ...] = dataclasses.field(default=(), compare=False)


# --- Categories ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Shares:
    """The share of each value as an interval, because statistics list only the frequent values.

    Attributes:
      total: the number of values.
      listed: the lowest and highest possible share of each listed value.
      others: the highest possible share of a value that is not listed.
    """

    total: int
    listed: Mapping[str, tuple[float, float]]
    others: float = 0.0

    def of(self, value: str) -> tuple[float, float]:
        return self.listed.get(value, (0.0, self.others))


def shares(statistics: Optional[FeatureStatistics], *, binary: bool = False) -> Shares:
    """The shares of a feature's values; empty if it has no statistics.

    Args:
      statistics: of a string or int64 feature, or, with `binary`, of a float32 feature.
      binary: whether 0 and 1 are its only values.
    """
    if statistics is None or not statistics.values:
        return Shares(0, {})
    total = statistics.values
    words = statistics.words
    if words is None:
        if not binary:
            raise ValueError("the statistics have no counts for the values of this feature")
        zeros = statistics.numbers.zeros if statistics.numbers is not None else 0
        finite = total - statistics.numbers.non_finite if statistics.numbers is not None else 0
        counts = {"0": zeros, "1": finite - zeros, "nan": total - finite}
        return Shares(total, {value: (n / total, n / total) for value, n in counts.items() if n})
    error = words.largest_error
    listed = {word: (n / total, min(n + error, total) / total) for word, n in words.top}
    for value, count in (("", words.empty), (_NO_TEXT, words.not_words)):
        if count:
            listed[value] = (count / total, count / total)
    rest = total - sum(n for _, n in words.top) - words.empty - words.not_words
    rarest = words.top[-1][1] if words.top else 0
    # A word that is not listed is at most as frequent as the last listed word.
    return Shares(total, listed, min(rest, rarest + error) / total)


def l_infinity(before: Shares, now: Shares) -> Distance:
    """The L-infinity distance: the largest change in the share of any one value, as a lower bound.

    Statistics list only the 1000 most frequent values (`statistics.Words`). For other values, this
    uses the largest share that they may have had. So the distance is never too large. It may be too
    small by at most the share of the last listed value, which is below 0.1%.

    Source: L-infinity norm, as `skew_comparator.infinity_norm` and `drift_comparator` of
    TensorFlow Data Validation's schema.

    By hand: before rome 2 of 4, oslo 2 of 4; now rome 3 of 4, lima 1 of 4. The shares moved by
    0.25 (rome), 0.5 (oslo) and 0.25 (lima); the distance is 0.5.
    """
    if not before.total or not now.total:
        return Distance(float(bool(before.total) != bool(now.total)))
    moves = []
    for value in sorted({*before.listed, *now.listed}):
        (low, high), (new_low, new_high) = before.of(value), now.of(value)
        move = max(low - new_high, new_low - high, 0.0)
        if move:
            text = f"{_quoted(value)} {_share(low, high)} -> {_share(new_low, new_high)}"
            moves.append((move, text))
    moves.sort(key=lambda item: -item[0])
    moved = tuple(text for _, text in moves[:_EXAMPLES])
    return Distance(moves[0][0] if moves else 0.0, moved, _parts(before, now))


def _parts(before: Shares, now: Shares) -> tuple[Part, ...]:
    """The frequent values of both sides, the most frequent first, and all others together."""
    parts = [
        Part(_quoted(value), before.of(value)[0], now.of(value)[0])
        for value in sorted({*before.listed, *now.listed})
    ]
    frequent = [part for part in parts if max(part.before, part.now) >= _LEAST_SHARE]
    frequent.sort(key=lambda part: -max(part.before, part.now))
    shown = frequent[:_MOST_PARTS]
    rest = [max(0.0, 1 - math.fsum(side)) for side in zip(*((p.before, p.now) for p in shown))]
    was, share = rest or (1.0, 1.0)
    others = (Part(_OTHERS, was, share),) if max(was, share) > 1e-9 else ()
    return (*shown, *others)


def _share(low: float, high: float) -> str:
    return f"{low:.2%}" if low or not high else f"at most {high:.2%}"


def _quoted(value: str) -> str:
    # Like Python's repr: only characters that cannot be printed are escaped.
    return value if value == _NO_TEXT else repr(value)


# --- Numbers -------------------------------------------------------------------------------------


def jensen_shannon(
    before: Optional[FeatureStatistics], now: Optional[FeatureStatistics]
) -> Distance:
    """The Jensen-Shannon divergence of two distributions of numbers, in bits, so from 0 to 1.

    Numbers are put into common bins: ten of about equal weight, and more where numbers moved; see
    `number_bins`. NaN and infinite values have a separate bin.

    With 10,000 values or more on both sides, the result is correct to 0.025, or to a tenth of
    itself if that is more. The tests show it for rows that move to one value, near or far, and for
    numbers with another mean or scale. The quantiles are 1% apart and hide rarer values. Two
    samples of n values from one distribution have a divergence of about 9 / (4 n ln 2), which is
    0.003 for n = 1000. Thresholds should be above both numbers.

    Source: J. Lin, "Divergence measures based on the Shannon entropy", IEEE Transactions on
    Information Theory 37 (1991), equation 4.1 with equal weights; no square root is taken.

    By hand: P = (1/2, 1/2), Q = (1, 0), so M = (3/4, 1/4). KL(P || M) = 1/2 log2(2/3) +
    1/2 log2(2) = 0.2075, KL(Q || M) = log2(4/3) = 0.4150, the divergence is 0.3113.
    """
    if before is None or now is None or not before.values or not now.values:
        return Distance(float(_has_values(before) != _has_values(now)))
    values = min(before.values, now.values)
    inside = common_bins(before.numbers, now.numbers, values=values)
    finite, still_finite = _finite(before), _finite(now)
    bins = [Part(bin.name, bin.before * finite, bin.now * still_finite) for bin in inside]
    bins.append(Part("NaN or infinite", 1 - finite, 1 - still_finite))
    parts = [divergence(bin.before, bin.now) for bin in bins]
    order = sorted(range(len(bins)), key=lambda i: (-parts[i], i))
    moved = tuple(
        f"{bins[i].name} {bins[i].before:.2%} -> {bins[i].now:.2%}"
        for i in order[:_EXAMPLES]
        if parts[i] > 0
    )
    distribution = tuple(part for part in bins if part.before or part.now)
    return Distance(min(max(math.fsum(parts), 0.0), 1.0), moved, distribution)


def _has_values(statistics: Optional[FeatureStatistics]) -> bool:
    return statistics is not None and bool(statistics.values)


def _finite(statistics: FeatureStatistics) -> float:
    """The share of values that are neither NaN nor infinite."""
    numbers = statistics.numbers
    return (
        (statistics.values - numbers.non_finite) / statistics.values if numbers is not None else 0.0
    )


# --- Missing values ------------------------------------------------------------------------------


def missing(
    before: Optional[FeatureStatistics],
    now: Optional[FeatureStatistics],
    *,
    rows_before: int,
    rows: int,
) -> Distance:
    """How much the share of records without a value changed.

    A feature without statistics is missing in all records. By hand: 1 of 4 records lacked the
    feature before, and 3 of 4 lack it now, so the distance is |0.25 - 0.75| = 0.5.
    """
    was = before.missing / rows_before if before is not None else 1.0
    share = now.missing / rows if now is not None else 1.0
    moved = f"missing {was:.2%} -> {share:.2%}"
    return Distance(abs(share - was), (moved,), (Part("missing", was, share),))
