"""Windows of days over folders that are named `dt=2026-01-01`.

    parse("2026-01-05..2026-01-07")      # 2026-01-05, 2026-01-06, 2026-01-07
    parse("3d..2026-01-07")              # the same: three days that end with the last one
    parse("2026-01-07")                  # that day
    of_days("data/dt=*/*.tfrecord", ("2026-01-07",))     # data/dt=2026-01-07/*.tfrecord

This module only handles text. It opens no file and does not import TensorFlow. `files` checks
whether the folder of a day exists.
"""

from __future__ import annotations

import datetime
import re

# The part of a pattern that is replaced by a day.
_PLACE = re.compile(r"(?<![^/])dt=(\*|YYYY-MM-DD)(?![^/])")
# The most days in a window. A larger number is almost certainly a typing error.
_MOST = 3660

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EXPECTED = (
    "a day (2026-01-07), a first and a last day (2026-01-01..2026-01-07) or a number of days and "
    "the last one (7d..2026-01-07)"
)


def parse(text: str) -> tuple[str, ...]:
    """The days of a window, first to last, both included.

    Raises:
      ValueError: the text is not a window; the message says what was expected.
    """
    first, dots, last = text.strip().partition("..")
    end = _day(text, last if dots else first)
    count = re.fullmatch(r"(\d+)d", first) if dots else None
    if count:
        days = int(count[1])
        if not 1 <= days <= end.toordinal():
            raise ValueError(f"got {text!r}: {days} days, expected 1 or more")
    else:
        days = (end - _day(text, first)).days + 1
        if days < 1:
            raise ValueError(f"got {text!r}: the last day is before the first")
    if days > _MOST:
        raise ValueError(f"got {text!r}: {days} days, expected {_MOST} at most")
    start = end.toordinal() - days + 1
    return tuple(datetime.date.fromordinal(start + i).isoformat() for i in range(days))


def _day(text: str, day: str) -> datetime.date:
    if not _DAY.fullmatch(day):
        raise ValueError(f"got {text!r}, expected {_EXPECTED}")
    try:
        return datetime.date.fromisoformat(day)
    except ValueError as error:
        raise ValueError(f"got {text!r}: the day {day} does not exist") from error


def of_days(pattern: str, days: tuple[str, ...]) -> list[str]:
    """One pattern for each day: the part `dt=*` (or a literal `dt=YYYY-MM-DD`) becomes `dt=<day>`.

    Raises:
      ValueError: the pattern does not have exactly one such part.
    """
    places = _PLACE.findall(pattern)
    if len(places) != 1:
        raise ValueError(
            f"{pattern!r} has {len(places)} parts dt=*, expected one, as in "
            "data/dt=*/*.tfrecord. Each day replaces the star"
        )
    return [_PLACE.sub(f"dt={day}", pattern) for day in days]
