"""Compares stored numbers exactly with numbers of a spec or a flag, and cuts them at quantiles.

    at_least(16777217, "float32")   # 16777218.0: x >= 16777217 if x >= this number
    at_most(16777217, "float32")    # 16777216.0
    equal_to(16777217, "float32")   # None: no float32 is equal to it
    equal_to(0.1, "float32")        # 0.1 as a float32
    cuts([0] * 96 + [1] * 5, 10)    # [1]: the boundary between the values 0 and 1

A number that is rounded to a type before it is compared would be equal to its neighbors. So these
functions return the first number of the type on the right side of a bound. The only exception are
decimal fractions, which no float can hold: 0.1 stands for the float32 that is printed as 0.1. Then
a value that was stored as 0.1 is neither below nor above 0.1.

A bucket begins at its boundary: x < 5 and x >= 5. If many rows have one value, a quantile is this
value for a range of shares. Then the boundary is at the value or directly above it, whichever is
nearer to the wanted share. It is never at the minimum, below which no row is. Does not import
TensorFlow.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Optional, Union

Number = Union[int, float]


def at_least(bound: Number, dtype: str) -> Number:
    """The smallest number of a type (int64, float32 or float64) that is `bound` or more.

    For float types it may be infinity, and for int64 it may be too large for an int64.
    """
    if dtype == "int64":
        return math.ceil(bound)
    nearest = _nearest(bound, dtype)
    if nearest >= Fraction(bound) or _stands_for(bound, nearest, dtype):
        return nearest
    return after(nearest, dtype)


def at_most(bound: Number, dtype: str) -> Number:
    """The largest number of a type that is `bound` or less."""
    return -at_least(-bound, dtype)


def equal_to(bound: Number, dtype: str) -> Optional[Number]:
    """The number of a type that is equal to `bound`, or None."""
    if dtype == "int64":
        return int(bound) if bound == math.floor(bound) else None
    nearest = _nearest(bound, dtype)
    if math.isinf(nearest):
        return None
    return nearest if nearest == bound or _stands_for(bound, nearest, dtype) else None


def _nearest(bound: Number, dtype: str) -> float:
    """The nearest number of a float type, which may be infinity."""
    if dtype == "float32":
        return nearest_float32(bound)
    try:
        return float(bound)
    except OverflowError:
        return math.copysign(math.inf, bound)


def nearest_float32(number: Union[int, float, Fraction]) -> float:
    """The nearest float32, or an infinity."""
    try:
        return _float32(float(number))
    except OverflowError:
        return math.copysign(math.inf, number)


def _float32(number: float) -> float:
    (narrow,) = struct.unpack("<f", struct.pack("<f", number))
    return float(narrow)


def after(number: float, dtype: str) -> float:
    """The next larger number of a float type."""
    form, bits = ("<d", "<q") if dtype == "float64" else ("<f", "<i")
    if number == 0:
        number = 0.0  # Not -0.0.
    (place,) = struct.unpack(bits, struct.pack(form, number))
    (result,) = struct.unpack(form, struct.pack(bits, place + 1 if number >= 0 else place - 1))
    return float(result)


def _stands_for(bound: Number, number: float, dtype: str) -> bool:
    """Whether `bound` has the digits with which a float32 is printed, the fewest that name it."""
    if dtype == "float64" or not isinstance(bound, float) or math.isinf(number):
        return False
    digits = (float(f"{number:.{count}g}") for count in range(1, 10))
    return next(shown for shown in digits if _nearest(shown, dtype) == number) == bound


def cuts(quantiles: Sequence[Number], buckets: int) -> list[Number]:
    """The boundaries that cut values into up to `buckets` parts of about equal size.

    There are fewer parts if one value has more rows than a part. Each part has values.

    Args:
      quantiles: the minimum, quantiles at equal shares, and the maximum, not all equal. The minimum
        of an int64 feature is an int.
      buckets: 2 or more.
    """
    last = len(quantiles) - 1
    integers = isinstance(quantiles[0], int)
    limits: set[Number] = set()
    above: set[Number] = set()
    for i in range(1, buckets):
        at = round(last * i / buckets)
        value = quantiles[at]
        first, end = quantiles.index(value), last - quantiles[::-1].index(value)
        if value < quantiles[-1] and (value == quantiles[0] or at - first > end - at):
            above.add(value)
        else:
            limits.add(value)
    for value in above:
        next_ = next(other for other in quantiles if other > value)
        # The next quantile is the next value, if it is frequent. Otherwise others are between them.
        frequent = next_ in limits or quantiles.count(next_) > 1
        limits.add(next_ if frequent else just_above(value, integers))
    # 3.2 and 3.4 are one boundary of integers.
    distinct = {math.ceil(limit) if integers else limit: limit for limit in sorted(limits)}
    return list(distinct.values())


def just_above(value: Number, integers: bool) -> Number:
    """The smallest number that is certainly larger: the next integer, or the next float32."""
    if integers:
        return math.floor(value) + 1
    if value == 0:
        return 2.0**-126  # Smaller numbers may be treated as 0.
    return after(at_most(value, "float32"), "float32")
