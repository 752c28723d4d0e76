"""Windows of days over folders that are named `dt=2026-01-01`.

    parse("2026-01-05..2026-01-07")      # 2026-01-05, 2026-01-06, 2026-01-07
    parse("3d..2026-01-07")              # the same: three days that end with the last one
    parse("2026-01-07")                  # that day
    of_days("data/dt=*/*.tfrecord", ("2026-01-07",))     # data/dt=2026-01-07/*.tfrecord

Plain text: looks at no file and imports no TensorFlow. Whether a day is there, `files` says.
"""

from __future__ import annotations

import datetime
import re

# What stands for a day in a pattern.
_PLACE = re.compile(r"(?<![^/])dt=(\*|YYYY-MM-DD)(?![^/])")
# Days of a window: more are a slip of the pen.
_MOST = 3660

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_EXPECTED = "a day (2026-01-07), two (2026-01-01..2026-01-07) or a number of them (7d..2026-01-07)"


def parse(text: str) -> tuple[str, ...]:
    """The days of a window, first to last, both included.

    Raises:
      ValueError: the text is no window; the message says what was expected.
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
            raise ValueError(f"got {text!r}: its last day is before its first")
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
        raise ValueError(f"got {text!r}: there is no day {day}") from error


def of_days(pattern: str, days: tuple[str, ...]) -> list[str]:
    """A pattern for each day, its part `dt=*` (or `dt=YYYY-MM-DD`, as it stands) filled in.

    Raises:
      ValueError: the pattern has no such part, or two.
    """
    places = _PLACE.findall(pattern)
    if len(places) != 1:
        raise ValueError(
            f"{pattern!r} has {len(places)} parts dt=*, expected one, as in "
            "data/dt=*/*.tfrecord, for each day to take its place"
        )
    return [_PLACE.sub(f"dt={day}", pattern) for day in days]
