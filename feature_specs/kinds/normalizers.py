"""The normalizers of numeric columns, one frozen model each, and what they do to an integer.

A float32 holds integers only up to 2**24. A time in seconds since 1970 has more digits. If it
became a float32 before its mean is subtracted, all times of a minute would be one number. So the
steps before the first `log1p` become one step, which subtracts first, in exact arithmetic:

    scaling((ZScore(mean=m, stddev=s), Clip(min=-1, max=1)))
    # Scaling(center=m, scale=s, limits=((m - s, m + s),)): (x limited to limits - center) / scale

Boundaries become integers: `least_integer((), 2.5)` is 3, because x >= 2.5 if x >= 3.
`feature_specs.reference.ops` has the TensorFlow ops. This module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, ExactNumber, PositiveFloat, Range, only_key, spelled_out


class Log1p(Entry):
    """log(1 + x), for counts and prices. x must be greater than -1."""

    log1p: Literal[True] = Field(
        description="log(1 + x). x must be greater than -1. Write `log1p` without a value."
    )


class ZScore(Entry):
    """(x - mean) / stddev.

    `{zscore: {statistics: statistics.json}}` takes both numbers from a statistics file.
    """

    class Values(Entry):
        """The options of `zscore`."""

        mean: ExactNumber = Field(description="The number that is subtracted.")
        stddev: PositiveFloat = Field(description="The number that the difference is divided by.")

    zscore: Values = Field(description="(x - mean) / stddev.")


class MinMax(Entry):
    """(x - min) / (max - min). Values outside the range are not clipped.

    `{minmax: {statistics: statistics.json}}` takes both numbers from a statistics file.
    """

    minmax: Range = Field(
        description="(x - min) / (max - min). Values outside the range are not clipped."
    )


class Clip(Entry):
    """x, limited to [min, max]."""

    clip: Range = Field(description="x, limited to [min, max].")


Normalizer = Annotated[
    Union[
        Annotated[Log1p, pydantic.Tag("log1p")],
        Annotated[ZScore, pydantic.Tag("zscore")],
        Annotated[MinMax, pydantic.Tag("minmax")],
        Annotated[Clip, pydantic.Tag("clip")],
    ],
    pydantic.Discriminator(
        only_key,
        custom_error_type="normalizer",
        custom_error_message="log1p, {zscore: {mean, stddev}}, {minmax: {min, max}}, "
        "{clip: {min, max}}, or a list of them",
    ),
]


def _steps(value: Any) -> Any:
    """Turns `log1p`, a mapping, or a list of them into a tuple of mappings."""
    steps = value if isinstance(value, (list, tuple)) else [value]
    return tuple(spelled_out(step, "log1p") for step in steps)


# They are applied in order.
Normalizers = Annotated[tuple[Normalizer, ...], pydantic.BeforeValidator(_steps)]


# A fraction, or an infinity.
_Bound = Union[Fraction, float]


@dataclasses.dataclass(frozen=True)
class Scaling:
    """(x limited to each of `limits` in order - center) / scale."""

    center: Fraction = Fraction(0)
    scale: Fraction = Fraction(1)
    limits: tuple[tuple[Fraction, Fraction], ...] = ()

    @property
    def whole(self) -> int:
        """The int64 that is nearest to the center. It is subtracted first."""
        return min(max(round(self.center), -(2**63)), 2**63 - 1)


def before_log(steps: Sequence[Normalizer]) -> int:
    """How many steps come before the first `log1p`."""
    return next((i for i, step in enumerate(steps) if isinstance(step, Log1p)), len(steps))


def scaling(steps: Sequence[Normalizer]) -> Scaling:
    """Steps without `log1p` as one step."""
    center, scale = Fraction(0), Fraction(1)
    limits = []
    for step in steps:
        if isinstance(step, Clip):
            low, high = Fraction(step.clip.min), Fraction(step.clip.max)
            limits.append((center + low * scale, center + high * scale))
        else:
            subtracted, divisor = _linear(step)
            center, scale = center + subtracted * scale, scale * divisor
    return Scaling(center, scale, tuple(limits))


def least_integer(steps: Sequence[Normalizer], bound: float) -> Union[int, float]:
    """The smallest integer that the steps turn into `bound` or more.

    It is minus infinity if every integer becomes so large, and infinity if none does.
    """
    least = Fraction(bound)
    for step in reversed(steps):
        before = _before(step, least)
        if isinstance(before, float):
            return before
        least = before
    integer = math.ceil(least)
    if before_log(steps) < len(steps):  # The last bit of expm1 may be wrong.
        if normalized(steps, integer - 1) >= bound:
            return integer - 1
        if normalized(steps, integer) < bound:
            return integer + 1
    return integer


def normalized(steps: Sequence[Normalizer], value: Union[int, float]) -> _Bound:
    """The steps of one finite number. Only `log1p` is rounded, to a float64.

    It is NaN if a step has no logarithm.
    """
    result: _Bound = Fraction(value)
    for step in steps:
        if isinstance(step, Log1p):
            if not result > -1:
                return math.nan
            try:
                result = Fraction(math.log1p(result))
            except OverflowError:
                return math.inf
        elif isinstance(step, Clip):
            result = min(max(result, Fraction(step.clip.min)), Fraction(step.clip.max))
        else:
            subtracted, divisor = _linear(step)
            result = (result - subtracted) / divisor
    return result


def _linear(step: Normalizer) -> tuple[Fraction, Fraction]:
    """What a step subtracts, and what it then divides by."""
    if isinstance(step, ZScore):
        return Fraction(step.zscore.mean), Fraction(step.zscore.stddev)
    assert isinstance(step, MinMax), step
    least = Fraction(step.minmax.min)
    return least, Fraction(step.minmax.max) - least


def _before(step: Normalizer, bound: Fraction) -> _Bound:
    """The smallest number that one step turns into `bound` or more."""
    if isinstance(step, Clip):
        if bound <= step.clip.min:
            return -math.inf
        return math.inf if bound > step.clip.max else bound
    if isinstance(step, Log1p):
        try:
            return Fraction(math.expm1(bound))
        except OverflowError:
            return math.inf
    subtracted, divisor = _linear(step)
    return bound * divisor + subtracted
