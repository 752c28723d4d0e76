"""Periods of time whose records are in a folder each: a day, an hour, five minutes.

    periods = Periods.of("1h,Europe/Berlin")
    periods.named("2026-01-05T13")           # 12:00 to 13:00 UTC
    periods.count(duration("7d"))            # 168
    periods.fill("data/dt=*/hour=*/*.tfrecord", "2026-01-05T13")
                                             # data/dt=2026-01-05/hour=13/*.tfrecord

A pattern says how folders are named: `dt=*`, `dt=*/hour=*`, `ts=*` (ts=2026-01-05T13-30), or with
%Y, %m, %d, %H and %M, as in `data/%Y/%m/%d/%H%M/*.tfrecord`. These parts together are the folder of
a period. Its name in texts and documents, such as 2026-01-05T13-30, does not depend on the folder.

Names are local times of the zone, which is UTC by default. A period begins at its name and ends at
the next name, so that periods neither overlap nor leave time between them:

- A day has 23, 24 or 25 hours. Names that a zone skips do not exist.
- A name that a zone has twice, in the hour that is repeated when daylight saving ends, is one
  period. It begins at the first of both times, and its folder has the records of both. The last
  name of that hour ends with the repetition. Name folders in UTC if this is not what you want.

Retraining reads the records of periods, and monitoring the requests in them. This module never
reads a folder or a file.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from feature_specs.durations import duration, text_of
from feature_specs.errors import nearest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UTC = datetime.timezone.utc
DAY = datetime.timedelta(days=1)
_HOUR = datetime.timedelta(hours=1)
_MINUTE = datetime.timedelta(minutes=1)
_SECOND = datetime.timedelta(seconds=1)

# The parts of a pattern that the folder of a period replaces, and how that is named.
_DAYS = re.compile(r"(?<![^/])dt=(?:\*|YYYY-MM-DD)(?![^/])")
_HOURS = re.compile(_DAYS.pattern + r"/hour=\*(?![^/])")
_TIMES = re.compile(r"(?<![^/])ts=\*(?![^/])")
_OF_DAY, _OF_HOUR, _OF_TIME = "dt=%Y-%m-%d", "dt=%Y-%m-%d/hour=%H", "ts=%Y-%m-%dT%H-%M"

_DIGITS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2}

# The names of periods whose length is a multiple of this.
_NAMES = {DAY: "%Y-%m-%d", _HOUR: "%Y-%m-%dT%H", _MINUTE: "%Y-%m-%dT%H-%M"}


class Period(NamedTuple):
    """The time from `start`, included, to `end`, excluded, both in UTC."""

    name: str
    start: datetime.datetime
    end: datetime.datetime


class Periods:
    """All periods of one length in one zone. Each begins a multiple of the length after midnight.

    Args:
      length: a day, or whole minutes that divide a day.
      zone: the zone of the names.
    """

    def __init__(self, length: datetime.timedelta = DAY, zone: datetime.tzinfo = UTC):
        self.length = length
        self.zone = zone
        self._name = next(name for unit, name in _NAMES.items() if not length % unit)

    @classmethod
    def of(cls, text: str) -> Periods:
        """The periods of a setting such as `1d`, `1h` or `5m,Europe/Berlin`.

        Raises:
          ValueError: the length does not divide a day, or the zone does not exist.
        """
        length_text, comma, zone = text.partition(",")
        length = duration(length_text)
        if DAY % length:
            raise ValueError(
                f"expected a length that divides a day, such as 1d, 1h or 5m, got {length_text!r}"
            )
        return cls(length, _zone(zone) if comma else UTC)

    @property
    def are_utc_days(self) -> bool:
        """Whether the name of a period says when it begins and ends."""
        return self.length == DAY and self.zone is UTC

    def count(self, length: datetime.timedelta) -> int:
        """How many periods have this length, if a day has 24 hours.

        Raises:
          ValueError: it is not a multiple of the length of a period.
        """
        if length % self.length:
            raise ValueError(
                f"expected a multiple of {text_of(self.length)}, the length of a period "
                f"(--period), got {text_of(length)!r}"
            )
        return length // self.length

    def named(self, name: str) -> Period:
        """The period with this name, such as 2026-01-05T13-30.

        Raises:
          ValueError: the period does not exist.
        """
        return self._at(self._read(self._name, name))

    def containing(self, moment: datetime.datetime) -> Period:
        """The period of a moment, which has a zone."""
        local = moment.astimezone(self.zone).replace(tzinfo=None, fold=0)
        local -= (local - _midnight(local)) % self.length
        while self._start(local + self.length) <= moment:  # In the hour that is repeated.
            local += self.length
        return self._at(local)

    def of_times(self, times: NDArray[Any]) -> dict[Period, NDArray[np.int64]]:
        """The periods of some times, in seconds since 1970, with the places of the times of each.

        The periods are in the order of time.
        """
        import numpy as np  # Only here, because checking flags needs no NumPy.

        at = np.asarray(times, np.float64)
        order = np.argsort(at, kind="stable")
        places: dict[Period, NDArray[np.int64]] = {}
        first = 0
        while first < len(order):
            moment = datetime.datetime.fromtimestamp(at[order[first]], tz=UTC)
            period = self.containing(moment)
            after = int(np.searchsorted(at, period.end.timestamp(), "left", sorter=order))
            places[period] = np.sort(order[first:after])
            first = after
        return places

    def newest(self, as_of: str) -> Period:
        """The last period that begins in a day, an hour or a minute of the zone.

        Args:
          as_of: such as 2026-01-31; for periods that are shorter than a day, also a time such as
            2026-01-31T13 or 2026-01-31T13-30.

        Raises:
          ValueError: it has another form, or does not exist.
        """
        try:
            if self.length < DAY and "T" in as_of:
                form = _NAMES[_MINUTE if "-" in as_of.partition("T")[2] else _HOUR]
                begin, length = self._read(form, as_of), _HOUR if form == _NAMES[_HOUR] else _MINUTE
            else:
                begin, length = self._read(_NAMES[DAY], as_of), DAY
            end = self._start(begin + length)
            if self._start(begin) < end:
                return self.containing(end - datetime.timedelta(microseconds=1))
        except (ValueError, OverflowError):
            pass
        time = " or a time such as 2026-01-31T13-30" if self.length < DAY else ""
        raise ValueError(f"expected a day such as 2026-01-31{time}, got {as_of!r}")

    def before(self, period: Period, length: datetime.timedelta) -> datetime.datetime:
        """The moment of this length before the start of a period. Days are days of the zone."""
        try:
            if length % DAY:
                return period.start - length
            return self._start(self._read(self._name, period.name) - length)
        except OverflowError:
            return datetime.datetime.min.replace(tzinfo=UTC)

    def between(self, first: Period, last: Period) -> Iterator[Period]:
        """The periods from the first to the last, both included."""
        local = self._read(self._name, first.name)
        while self._start(local) <= last.start:
            if self._exists(local):
                yield self._at(local)
            local += self.length

    def fill(self, pattern: str, name: str) -> str:
        """The pattern of the files of one period, by its name."""
        _, _, after = self.parts(pattern)
        return self.folder(pattern, name) + after

    def folder(self, pattern: str, name: str) -> str:
        """The folder of one period, by its name."""
        before, form, _ = self.parts(pattern)
        return before + _format(form, self._read(self._name, name))

    def folders(self, pattern: str) -> str:
        """A pattern that the folders of all periods match."""
        before, form, _ = self.parts(pattern)
        return before + re.sub(r"[^/=]*%[^/]*", "*", form)

    def of_folder(self, pattern: str, path: str) -> Optional[Period]:
        """The period of a folder that matches `folders`; None if its name has another form.

        Raises:
          ValueError: the period does not exist.
        """
        _, form, _ = self.parts(pattern)
        own = "/".join(path.rstrip("/").split("/")[-1 - form.count("/") :])
        return self._at(self._read(form, own)) if _regex(form).fullmatch(own) else None

    def has(self, pattern: str) -> bool:
        """Whether the files of a period can be chosen from a pattern."""
        try:
            self.parts(pattern)
        except ValueError:
            return False
        return True

    def parts(self, pattern: str) -> tuple[str, str, str]:
        """A pattern: what is before the folder of a period, its form, and what is after it.

        Raises:
          ValueError: the pattern has no such folder, or several.
        """
        named = {_DAYS: _OF_DAY} if self.length == DAY else {_HOURS: _OF_HOUR, _TIMES: _OF_TIME}
        for place, form in named.items():
            places = [*place.finditer(pattern)]
            if len(places) == 1:
                self._check_form(form, pattern)
                return pattern[: places[0].start()], form, pattern[places[0].end() :]
        parts = pattern.split("/")
        own = [i for i, part in enumerate(parts) if "%" in part]
        if not own or any(place.search(pattern) for place in named):
            self._fail(pattern)
        first, end = own[0], own[-1] + 1
        form = "/".join(parts[first:end])
        self._check_form(form, pattern)
        before, after = parts[:first], parts[end:]
        if not after:
            raise ValueError(
                f"{pattern!r} names no files in the folder of a period. Add them, as in "
                f"{form}/*.tfrecord"
            )
        return "/".join([*before, ""]), form, "/".join(["", *after])

    def _fail(self, pattern: str) -> None:
        if self.length == DAY:
            count = len(_DAYS.findall(pattern))
            raise ValueError(
                f"{pattern!r} has {count} parts dt=*, expected one, as in data/dt=*/*.tfrecord. "
                "Each day replaces the star. For other periods, set --period"
            )
        raise ValueError(
            f"{pattern!r} has no folder for periods of {text_of(self.length)}: expected one "
            "dt=*/hour=* or ts=*, or %Y, %m, %d, %H and %M, as in data/%Y/%m/%d/%H%M/*.tfrecord"
        )

    def _check_form(self, form: str, pattern: str) -> None:
        """Checks that the folders of all periods have different names."""
        found = re.findall("%.?", form)
        needed = ["%Y", "%m", "%d", *(["%H"] if self.length % DAY else [])]
        needed += ["%M"] if self.length % _HOUR else []
        unlike = [each for each in found if each not in _DIGITS or found.count(each) > 1]
        lacking = [each for each in needed if each not in found]
        if unlike or lacking or re.search(r"[*?[]", form):
            raise ValueError(
                f"{pattern!r} has the folders {form}, expected each of {', '.join(needed)} once "
                f"for periods of {text_of(self.length)}, and no wildcard between them"
            )

    def _read(self, form: str, text: str) -> datetime.datetime:
        """The local time of a text. Raises ValueError if it does not exist."""
        match = _regex(form).fullmatch(text)
        if match is None:
            raise ValueError(f"{text} has not the form {form}")
        values = match.groupdict()
        year, month, day, hour, minute = (int(values.get(key[1], "0")) for key in _DIGITS)
        try:
            return datetime.datetime(year, month, day, hour, minute)
        except ValueError as error:
            raise ValueError(f"{text} is not a valid date") from error

    def _at(self, local: datetime.datetime) -> Period:
        """The period that begins at a local time."""
        name = _format(self._name, local)
        if (local - _midnight(local)) % self.length or not self._exists(local):
            raise ValueError(
                f"{_format(_NAMES[_MINUTE], local)} is not the start of a period of "
                f"{text_of(self.length)} in {self.zone}"
            )
        return Period(name, self._start(local), self._start(local + self.length))

    def _exists(self, local: datetime.datetime) -> bool:
        return self._start(local) < self._start(local + self.length)

    def _start(self, local: datetime.datetime) -> datetime.datetime:
        """The first moment that has this local time or, if a zone skips it, a later one."""
        moment = local.replace(tzinfo=self.zone).astimezone(UTC)
        if moment.astimezone(self.zone).replace(tzinfo=None, fold=0) == local:
            return moment
        # The local time is skipped between these two moments; it is not known when.
        early = local.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        offset = early.astimezone(self.zone).utcoffset()
        while moment - early > _SECOND:
            middle = early + (moment - early) // (2 * _SECOND) * _SECOND
            if middle.astimezone(self.zone).utcoffset() == offset:
                early = middle
            else:
                moment = middle
        return moment


def _zone(name: str) -> datetime.tzinfo:
    if name == "UTC":
        return UTC
    import zoneinfo  # Only here, because it reads the zones of the machine.

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = zoneinfo.available_timezones()
        hint = nearest(name, known) if known else ". Install the package tzdata."
        raise ValueError(f"unknown time zone {name!r}{hint}") from error


def _midnight(local: datetime.datetime) -> datetime.datetime:
    return local.replace(hour=0, minute=0, second=0, microsecond=0)


def _format(form: str, local: datetime.datetime) -> str:
    """Like `strftime`, whose years before 1000 have fewer digits on some machines."""
    values = (local.year, local.month, local.day, local.hour, local.minute)
    for (key, digits), value in zip(_DIGITS.items(), values):
        form = form.replace(key, f"{value:0{digits}}")
    return form


@functools.cache
def _regex(form: str) -> re.Pattern[str]:
    """What texts of a form match."""
    parts = re.split("(%.)", form)
    return re.compile(
        "".join(
            f"(?P<{part[1]}>[0-9]{{{_DIGITS[part]}}})" if part in _DIGITS else re.escape(part)
            for part in parts
        )
    )
