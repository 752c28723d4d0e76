"""Computes the distribution of one numeric feature in one pass, with bounded memory.

Count, range, mean and standard deviation do not depend on the order in which parts are merged,
because sums of parts are exact fractions that are divided only at the end. Within a part,
deviations are computed from its mean, so that the variance of large, similar numbers is correct.
Integers are subtracted as integers, because a float64 does not have the digits of large ones.
Estimated quantiles are float64.

With c the mean of a part as a float or an integer, r = sum(x - c) and q = sum((x - c)^2):

    sum(x)   = n c + r
    sum(x^2) = q + 2 c r + n c^2

Quantiles, distinct values and frequent values come from sketches of the library `datasketches`,
which is imported at the first use. A sketch is a summary of a stream of any length, with a bounded
size. All sizes are chosen here, so that sketches of different workers can be merged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Optional, Union

import numpy as np

from feature_specs.statistics import PERCENTILES, Numbers
from input_pipelines.errors import MissingPackageError

# 2**14 registers: a standard error of 0.8% of the cardinality, in 16 KB.
_LG_REGISTERS = 14

# At most 0.75 * 2**17 = 98,304 words. Each word with more than 1/37,000 of all values is included.
_LG_WORDS = 17

# About 35 KB. The error of quantiles is 0.1% of the rows in the middle, and far less at the ends.
_CENTROIDS = 2000


def library() -> Any:
    """The module `datasketches`.

    Raises:
      MissingPackageError: datasketches is not installed.
    """
    try:
        import datasketches
    except ImportError as error:
        raise MissingPackageError(
            "analysis needs the package 'datasketches'; "
            "install it with: pip install 'estimator-kit[analyze]'"
        ) from error
    return datasketches


def distinct() -> Any:
    """A HyperLogLog sketch: estimates the number of different values."""
    return library().hll_sketch(_LG_REGISTERS, library().tgt_hll_type.HLL_8)


def union(*sketches: Any) -> Any:
    """Merges HyperLogLog sketches.

    The estimate of a union depends only on the values, not on their order. The estimate of a sketch
    that was only updated depends on the order, too, and a union of one sketch is a copy of it. So
    every estimate comes from a union, and the first sketch is added twice: it changes no register.
    """
    result = library().hll_union(_LG_REGISTERS)
    for sketch in (*sketches, sketches[0]):
        result.update(sketch)
    return result.get_result(library().tgt_hll_type.HLL_8)


def frequent_words() -> Any:
    """A Misra-Gries sketch: the frequent words, with lower and upper bounds of their counts."""
    return library().frequent_strings_sketch(_LG_WORDS)


def quantiles() -> Any:
    """A t-digest. Its quantiles depend on the order of the values, within the error above.

    Unlike a KLL sketch, it uses no random numbers: the same data in the same order give the same
    quantiles.
    """
    return library().tdigest_double(_CENTROIDS)


Number = Union[int, float]

# From here on, floats are shown with an exponent.
_ALL_DIGITS = 1e15


class NumberSummary:
    """Moments, range and quantiles of the numbers that were added so far."""

    def __init__(self) -> None:
        self.count = 0
        self.zeros = 0
        self.non_finite = 0
        self._min: Optional[Number] = None
        self._max: Optional[Number] = None
        self._sum = Fraction(0)
        self._squares = Fraction(0)
        self._digest: Any = quantiles()

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process, with the digest as bytes."""
        return {**self.__dict__, "_digest": self._digest.serialize()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._digest = library().tdigest_double.deserialize(self._digest)

    def add(self, values: np.ndarray) -> np.ndarray:
        """Adds numbers [n], float32 or int64, and returns the finite ones."""
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                self.non_finite += int((~finite).sum())
                values = values[finite]
        if not len(values):
            return values
        center, away = _centered(values)
        rest, squares = Fraction(float(away.sum())), Fraction(float(np.square(away).sum()))
        exact = Fraction(center)
        self.count += len(values)
        self.zeros += int((values == 0).sum())
        self._range(values.min().item(), values.max().item())
        self._sum += len(values) * exact + rest
        self._squares += squares + 2 * exact * rest + len(values) * exact * exact
        self._digest.update(values.astype(np.float64))
        return values

    def merge(self, other: NumberSummary) -> None:
        """Adds another summary's numbers."""
        self.count += other.count
        self.zeros += other.zeros
        self.non_finite += other.non_finite
        if other.count:
            assert other._min is not None and other._max is not None
            self._range(other._min, other._max)
            # Compressing makes the result the same as with digests from another process. A merge
            # of uncompressed digests gives a different one.
            for digest in (self._digest, other._digest):
                digest.compress()
            self._digest.merge(other._digest)
        self._sum += other._sum
        self._squares += other._squares

    def result(self, counts: Optional[Mapping[Any, int]]) -> Optional[Numbers]:
        """The distribution, or None without finite numbers.

        Args:
          counts: how often each number occurs, if that is known. Then quantiles are exact.
        """
        if not self.count:
            return None
        assert self._min is not None and self._max is not None
        mean = self._sum / self.count
        variance = max(self._squares / self.count - mean * mean, Fraction(0))
        quantiles = self._estimated() if counts is None else exact_quantiles(counts)
        return Numbers(
            min=self._min,
            max=self._max,
            mean=float(mean),
            stddev=math.sqrt(variance),
            zeros=self.zeros,
            non_finite=self.non_finite,
            quantiles=quantiles,
            quantiles_exact=counts is not None,
        )

    def _range(self, low: Number, high: Number) -> None:
        self._min = low if self._min is None else min(self._min, low)
        self._max = high if self._max is None else max(self._max, high)

    def _estimated(self) -> tuple[Number, ...]:
        assert self._min is not None and self._max is not None
        inner = [self._digest.get_quantile(i / PERCENTILES) for i in range(1, PERCENTILES)]
        inner = [min(max(value, float(self._min)), float(self._max)) for value in inner]
        return (self._min, *sorted(inner), self._max)


def _centered(values: np.ndarray) -> tuple[Number, np.ndarray]:
    """A number near the mean, and float64 [n]: the numbers minus it."""
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        center = float(wide.mean())
        return center, wide - center
    low, high = int(values.min()), int(values.max())
    middle = min(max(int(values.mean()), low), high)
    if max(middle - low, high - middle) < 2**63:
        return middle, (values - np.int64(middle)).astype(np.float64)
    # The range is so large that the digits which float64 lacks do not matter.
    rounded = float(middle)
    return rounded, values.astype(np.float64) - rounded


def is_whole(number: Number) -> bool:
    """Whether messages should show a number with all of its digits: an integer, also as a float."""
    return isinstance(number, int) or (number.is_integer() and abs(number) < _ALL_DIGITS)


def with_commas(number: Number) -> str:
    """A number in messages: integers with all digits and commas, other numbers with six digits."""
    return f"{int(number):,}" if is_whole(number) else f"{number:.6g}"


def exact_quantiles(counts: Mapping[Any, int]) -> tuple[Number, ...]:
    """101 quantiles of counted values: the smallest value that at least i% do not exceed.

    For {1: 1, 2: 2, 3: 1} the 25th is 1 (one of four is 25%), the 26th to 75th 2, then 3.
    """
    values = sorted(counts)
    upto = np.cumsum([counts[value] for value in values])
    total = int(upto[-1])
    # Whole numbers: the least rank r with 100 r >= i n.
    ranks = [max(-(-i * total // PERCENTILES), 1) for i in range(PERCENTILES + 1)]
    return tuple(values[i] for i in np.searchsorted(upto, ranks))
