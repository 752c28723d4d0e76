"""Reads dates and times in the graph, for columns of the kind `time`.

    times = parsed(values, "%Y-%m-%d %H:%M")      # values: string or int64 [rows]
    part(times, "weekday")                        # int64 [rows], 0 is Monday
    times.readable                                # bool [rows]

The rules are the same as in `feature_specs.kinds.time.read`, with ops of TensorFlow: no Python code
runs for a row, so a SavedModel reads times too. Days are counted in the proleptic Gregorian
calendar by the formulas in Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
"""

from __future__ import annotations

import dataclasses
from typing import Optional

import numpy as np
import tensorflow as tf

from feature_specs.kinds.time import FIRST_SECOND, LAST_SECOND, UNITS, form_of

_DAY = 24 * 3600
# From March 1st of the year 0 to January 1st, 1970.
_DAYS_BEFORE_1970 = 719_468
_DAYS_OF_400_YEARS = 146_097
_LENGTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of rows, int64 [rows] each. Fields of rows that are not `readable` mean nothing.

    Attributes:
      readable: bool [rows]: whether a value is there and is a time of the format.
      year, month, day, hour: None if the format lacks it.
    """

    readable: tf.Tensor
    year: Optional[tf.Tensor] = None
    month: Optional[tf.Tensor] = None
    day: Optional[tf.Tensor] = None
    hour: Optional[tf.Tensor] = None


def parsed(values: tf.Tensor, form: str) -> Times:
    """Reads values, string or int64 [rows], in a format of a column of the kind `time`."""
    if form in UNITS:
        return _of_unit(values, UNITS[form])
    how = form_of(form)
    if values.dtype == tf.int64:
        present = values >= 0
        width = how.digits or 0
        # With zeros in front: 9102100 is 09102100.
        text = tf.strings.as_string(tf.maximum(values, 0), width=width, fill="0")
    else:
        text, present = values, True
    readable = tf.strings.regex_full_match(text, how.pattern) & present
    if not how.fields:
        return Times(readable)
    # "2017-11-07" becomes "2017 11 07". Regular expressions of TensorFlow read bytes.
    groups = " ".join(f"\\{i}" for i in range(1, len(how.fields) + 1))
    spaced = tf.strings.regex_replace(text, f"^{how.pattern}$", groups, replace_global=False)
    ones = " ".join("1" * len(how.fields))
    words = tf.strings.split(tf.where(readable, spaced, ones), " ").flat_values
    numbers = tf.reshape(tf.strings.to_number(words, tf.int64), [-1, len(how.fields)])
    fields = dict(zip(how.fields, tf.unstack(numbers, axis=1)))
    short = fields.pop("short_year", None)
    if short is not None:
        fields["year"] = short + tf.where(short < 69, tf.constant(2000, tf.int64), 1900)
    return Times(readable & _is_date(fields), **fields)


def part(times: Times, name: str) -> tf.Tensor:
    """A part of times, int64 [rows]. `name` is `hour`, `weekday`, `day` or `month`."""
    if name == "weekday":
        days = _days(times)
        return tf.math.floormod(days + 3, 7)  # January 1st, 1970, was a Thursday.
    value: tf.Tensor = getattr(times, name)
    return value


def _of_unit(values: tf.Tensor, unit: int) -> Times:
    seconds = tf.math.floordiv(values, unit) if unit > 1 else values
    readable = (seconds >= FIRST_SECOND) & (seconds <= LAST_SECOND) & tf.not_equal(values, -1)
    seconds = tf.where(readable, seconds, tf.zeros_like(seconds))
    days = tf.math.floordiv(seconds, _DAY)
    hour = tf.math.floordiv(seconds - days * _DAY, 3600)
    return Times(readable, *_date(days), hour)


def _is_date(fields: dict[str, tf.Tensor]) -> tf.Tensor:
    """Whether a month has a day, in a leap year if the year is unknown. The first year is 1."""
    good = tf.constant(True)
    year = fields.get("year")
    if year is not None:
        good &= year > 0
    if "month" in fields and "day" in fields:
        leap = tf.constant(True)
        if year is not None:
            by_4, by_100, by_400 = (tf.equal(tf.math.floormod(year, n), 0) for n in (4, 100, 400))
            leap = (by_4 & ~by_100) | by_400
        february = tf.cast(tf.equal(fields["month"], 2) & leap, tf.int64)
        good &= fields["day"] <= tf.gather(_LENGTHS, fields["month"] - 1) + february
    return good


def _days(times: Times) -> tf.Tensor:
    """The days since January 1st, 1970. A year begins in March, so that it ends with a leap day."""
    assert times.year is not None and times.month is not None and times.day is not None
    early = tf.cast(times.month <= 2, tf.int64)
    year = times.year - early
    day_of_year = tf.math.floordiv(153 * (times.month - 3 + 12 * early) + 2, 5) + times.day - 1
    by_4, by_100, by_400 = (tf.math.floordiv(year, n) for n in (4, 100, 400))
    return year * 365 + by_4 - by_100 + by_400 + day_of_year - _DAYS_BEFORE_1970


def _date(days: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The year, month and day of days since January 1st, 1970."""
    div = tf.math.floordiv
    days = days + _DAYS_BEFORE_1970
    era = div(days, _DAYS_OF_400_YEARS)
    of_era = days - era * _DAYS_OF_400_YEARS
    year = div(of_era - div(of_era, 1460) + div(of_era, 36_524) - div(of_era, 146_096), 365)
    of_year = of_era - (365 * year + div(year, 4) - div(year, 100))
    from_march = div(5 * of_year + 2, 153)
    day = of_year - div(153 * from_march + 2, 5) + 1
    month = tf.where(from_march < 10, from_march + 3, from_march - 9)
    return year + era * 400 + tf.cast(month <= 2, tf.int64), month, day
