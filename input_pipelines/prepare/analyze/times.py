"""Recognizes features of dates and times, and chooses columns of their parts for a first spec.

    recognized("click_time", statistics, counts)    # a TimeFeature, or None
    columns_of("click_time", time, taken)           # their entries

Text is a time if nearly all of its values have one format. Integers are times if all are dates
written in digits, such as 20140921, or if their name says that they are times and they are seconds
or milliseconds of usual years. A vocabulary of minutes teaches nothing, but the hour and the
weekday do. The time itself does not become a number: new rows have later times than all rows of a
training. Only reads statistics.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any, Optional, Union

from feature_specs.kinds.time import UNITS, read
from feature_specs.statistics import FeatureStatistics

# The share of text that must have the format, and how many different words are read.
_SHARE = 0.95
_MOST = 5000

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%m/%d/%y", "%d/%m/%y", "%d.%m.%y", "%Y%m%d",
)  # fmt: skip
_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H%M%S")
_TEXTS = (
    *_DATES,
    *(
        f"{date}{between}{clock}{zone}"
        for date in _DATES
        for between in (" ", "T")
        for clock in _CLOCKS
        for zone in ("", "%z", " %z")
    ),
)

# By the number of digits. The name must say that integers of six digits are times.
_DIGITS = {14: ("%Y%m%d%H%M%S",), 12: ("%Y%m%d%H%M",), 10: ("%Y%m%d%H",),
           8: ("%Y%m%d", "%y%m%d%H"), 6: ("%y%m%d",)}  # fmt: skip
_NAMED_DIGITS = 6
# Fewer different integers may be dates by accident.
_FEW = 4

_NAME = re.compile(
    r"(^|[_.\-])(time|timestamp|ts|date|datetime|dt|epoch|day|hour|created|updated|(created|updated"
    r"|\w+ed)_at)($|[_.\-])|[a-z](Time|Date|Timestamp|At)$|(?i:timestamp|datetime)"
)
_YEARS = 1950, 2050
_UNIT_YEARS = 1990, 2040


@dataclasses.dataclass(frozen=True)
class TimeFeature:
    """A feature of times.

    Attributes:
      format: how it holds them, as in the column kind `time`.
      why: how it was recognized.
      parts: the parts that differ between rows and are worth learning.
    """

    format: str
    why: str
    parts: tuple[str, ...]


def recognized(
    name: str, statistics: FeatureStatistics, counts: Optional[Mapping[Any, int]] = None
) -> Optional[TimeFeature]:
    """How a feature holds times, or None.

    Args:
      name: the feature.
      statistics: its statistics.
      counts: how often each of its values occurs, if that is known: words or integers.
    """
    if statistics.lengths.max != 1 or statistics.odd_steps is not None:
        return None
    if statistics.dtype == "string" and statistics.words is not None:
        words = dict(statistics.words.top) if counts is None else counts
        return _of_text(words) if words else None
    if statistics.dtype == "int64" and statistics.numbers is not None:
        values = [*counts] if counts else [int(number) for number in statistics.numbers.quantiles]
        integers = sorted({int(value) for value in values} - {-1})
        return _of_integers(name, integers, exact=bool(counts)) if integers else None
    return None


def _of_text(words: Mapping[str, int]) -> Optional[TimeFeature]:
    words = _some(words, _MOST)
    few = _some(words, 20)
    best, most = "", 0
    for form in _TEXTS:
        if 2 * sum(read(word, form) is not None for word in few) <= len(few):
            continue
        fits = sum(count for word, count in words.items() if read(word, form) is not None)
        if fits > most:
            best, most = form, fits
    total = sum(words.values())
    if not best or most < _SHARE * total:
        return None
    times = [time for time in (read(word, best) for word in words) if time is not None]
    why = f"its text is a {'time' if '%H' in best else 'date'}, {best}"
    if most < total:
        why += f"; {100 * (total - most) / total:.2g}% of the values are not, and count as missing"
    swapped = best.replace("%m/%d", "%d/%m")
    if swapped != best and all(read(word, swapped) is not None for word in words):
        why += f"; all values also fit {swapped}"
    return TimeFeature(best, why, _parts(best, times))


def _some(words: Mapping[str, int], count: int) -> dict[str, int]:
    """At most `count` words, spread evenly."""
    step = -(-len(words) // count)
    return {word: words[word] for i, word in enumerate(words) if i % step == 0}


def _of_integers(name: str, values: list[int], *, exact: bool) -> Optional[TimeFeature]:
    named = _NAME.search(name) is not None
    digits = {len(str(value)) for value in values}
    for width, forms in _DIGITS.items() if len(digits) == 1 and exact else ():
        if digits != {width} or not (named or (width > _NAMED_DIGITS and len(values) > _FEW)):
            continue
        for form in forms:
            times = [read(value, form) for value in values]
            dates = [time for time in times if time is not None and _usual(time, _YEARS)]
            if len(dates) == len(values):
                return TimeFeature(form, f"all its integers are dates, {form}", _parts(form, dates))
    if named:
        for form in UNITS:
            times = [read(value, form) for value in values]
            dates = [time for time in times if time is not None and _usual(time, _UNIT_YEARS)]
            if len(dates) == len(values):
                why = f"its name and its range say that these are {form} since 1970"
                return TimeFeature(form, why, _parts(form, dates))
    return None


def _usual(time: datetime.datetime, years: tuple[int, int]) -> bool:
    return years[0] <= time.year <= years[1]


def _parts(form: str, times: list[datetime.datetime]) -> tuple[str, ...]:
    """The parts that are worth learning.

    Hours must differ. All weekdays, or all months, must occur: otherwise they only name the dates
    of a short time, and new rows have other ones.
    """
    hours = {time.hour for time in times} if "%H" in form or form in UNITS else set()
    parts = ["hour"] if len(hours) > 1 else []
    if len({time.weekday() for time in times}) == 7:
        parts.append("weekday")
    if len({time.month for time in times}) == 12:
        parts.append("month")
    return tuple(parts)


def column(name: str, time: TimeFeature, part: str) -> dict[str, Union[str, int]]:
    """The entry of a column of a part."""
    return {"time": name, "part": part, "format": time.format}
