"""Boundaries from the quantiles of a feature. No TensorFlow import.

    cuts([0] * 96 + [1] * 5, 10)      # [1]: the values 0 and 1

A bucket begins at its boundary: x < 5 and x >= 5. If many rows have one value, a quantile is this
value for a range of shares. Then the boundary is at the value or directly above it, whichever is
nearer to the wanted share. It is never at the minimum, below which no row is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Union

from feature_specs.kinds import bounds

Number = Union[int, float]


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
    return bounds.after(bounds.at_most(value, "float32"), "float32")
