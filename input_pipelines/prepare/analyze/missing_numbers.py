"""Chooses how a first spec treats numbers that some records lack.

    marker(numbers)           # -1, a number that no record has; None if all are taken
    filled(entry, numbers)    # {numeric: income, missing: 43000}: the median in place of -1

A model cannot see that a number is missing if it gets a usual number in its place. So the default
of the feature is a number that no record has. Only reads statistics.
"""

from __future__ import annotations

from typing import Any, Optional, Union

from feature_specs.entry import LARGEST_FLOAT32
from feature_specs.statistics import Numbers

_MEDIAN = 50


def marker(numbers: Numbers) -> Optional[Union[int, float]]:
    """A round number below all numbers: -1, -10, -100, ...; None if no such number can be stored.

    For numbers from -250 on it is -1,000.
    """
    is_integer = isinstance(numbers.min, int)
    least = -(2**63) if is_integer else -LARGEST_FLOAT32
    value = -1
    while value >= numbers.min:
        value *= 10
    if value < least:
        return None
    return value if is_integer else float(value)


def median(numbers: Numbers) -> Union[int, float]:
    """The median, in the type of the numbers."""
    value = numbers.quantiles[_MEDIAN]
    return int(value) if isinstance(numbers.min, int) else float(value)


def is_known(default: Any, numbers: Numbers) -> bool:
    """Whether a default of the feature means that the number is missing."""
    return default is not None and default < numbers.min
