"""Durations that users write, in specs and in flags: 30m, 6h, 7d.

It imports no TensorFlow, and knows no time zone: a day has 24 hours.
"""

from __future__ import annotations

import datetime
import re

_UNITS = {
    "d": datetime.timedelta(days=1),
    "h": datetime.timedelta(hours=1),
    "m": datetime.timedelta(minutes=1),
}
_DURATION = re.compile(r"([1-9]\d{0,6})([dhm]?)")


def duration(text: str) -> datetime.timedelta:
    """The length of `30m`, `6h` or `7d`. A number alone is days.

    Raises:
      ValueError: the text is something else.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"expected minutes, hours or days such as 30m, 6h or 7d, got {text!r}")
    return int(match[1]) * _UNITS[match[2] or "d"]


def text_of(length: datetime.timedelta) -> str:
    """The shortest text of a duration, such as `7d`."""
    letter, unit = next((letter, unit) for letter, unit in _UNITS.items() if not length % unit)
    return f"{length // unit}{letter}"
