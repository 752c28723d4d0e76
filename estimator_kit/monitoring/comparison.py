"""The canary and the live version: the metrics of both, each on its own requests.

    compare(periods, live=7, canary=8)

The requests of both are different ones, so their errors are independent. The interval of the
difference follows from the intervals of both: MOVER, Zou and Donner, "Construction of confidence
limits about effect measures", Statistics in Medicine 27 (2008).

    live 0.70 from 0.67 to 0.74, canary 0.75 from 0.71 to 0.78
    low  = 0.05 - sqrt(0.04^2 + 0.04^2) = -0.007
    high = 0.05 + sqrt(0.03^2 + 0.03^2) =  0.092

This module uses neither TensorFlow nor the disk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from estimator_kit.monitoring.results import Compared, Metric, PeriodResult


def compare(
    periods: Sequence[PeriodResult], *, live: Optional[int], canary: Optional[int]
) -> list[Compared]:
    """The metrics that both have, in the order of the periods; none without a canary."""
    found = []
    for period in periods if live is not None and canary is not None else ():
        of = {version.version: version.metrics for version in period.versions}
        for name, metric in of.get(live, {}).items():
            other = of.get(canary, {}).get(name)
            if other is not None:
                found.append(_compared(name, period.name, metric, other))
    return found


def _compared(name: str, period: str, live: Metric, canary: Metric) -> Compared:
    difference = low = high = None
    if live.value is not None and canary.value is not None:
        difference = canary.value - live.value
        ends = (live.low, live.high, canary.low, canary.high)
        if all(end is not None for end in ends):
            l_low, l_high, c_low, c_high = (float(end) for end in ends if end is not None)
            low = difference - math.hypot(canary.value - c_low, l_high - live.value)
            high = difference + math.hypot(c_high - canary.value, live.value - l_low)
    return Compared(
        metric=name,
        period=period,
        live=live,
        canary=canary,
        difference=difference,
        low=low,
        high=high,
    )
