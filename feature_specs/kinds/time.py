"""The kind `time`: the hour, the weekday, the day or the month of a date or time, as a category.

    columns:
      click_hour:    {time: click_time, part: hour, format: "%Y-%m-%d %H:%M"}
      click_weekday: {time: click_time, part: weekday, format: "%Y-%m-%d %H:%M"}

    column.read("2017-11-07 9:30")    # 9; None if the value is not a time of this format

`input_pipelines.transform.times` has the same rules as TensorFlow ops: both match a value with
`Form.pattern`. This module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Scalar
from feature_specs.errors import Problem, unknown
from feature_specs.feature import Feature
from feature_specs.kinds.base import Entries, Reference, Sourced, path_to

# The formats of integers that count since 1970, in units of a second.
UNITS = {"seconds": 1, "milliseconds": 1000}

# The first and the last second of the years 1 to 9999, since 1970. Other numbers are not times.
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799

_EPOCH = datetime.datetime(1970, 1, 1)

# By directive: what it gives, with separators around it, and next to another directive.
_DIRECTIVES = {
    "Y": ("year", "([0-9]{4})", "([0-9]{4})"),
    "y": ("short_year", "([0-9]{2})", "([0-9]{2})"),
    "m": ("month", "(0?[1-9]|1[0-2])", "(0[1-9]|1[0-2])"),
    "d": ("day", "(0?[1-9]|[12][0-9]|3[01])", "(0[1-9]|[12][0-9]|3[01])"),
    "H": ("hour", "([01]?[0-9]|2[0-3])", "([01][0-9]|2[0-3])"),
    "M": ("", "[0-5]?[0-9]", "[0-5][0-9]"),
    "S": ("", "[0-5]?[0-9]", "[0-5][0-9]"),
    "f": ("", "[0-9]{1,9}", ""),
    "z": ("", "(?:Z|[+-][0-9]{2}:?[0-9]{2})", "(?:Z|[+-][0-9]{2}:?[0-9]{2})"),
}
_DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_PIECE = re.compile("%(.?)|([^%])", re.DOTALL)

Part = Literal["hour", "weekday", "day", "month"]
# By part, what a format must give.
PARTS = {"hour": {"hour"}, "weekday": {"year", "month", "day"}, "day": {"day"}, "month": {"month"}}
# The number of ids. The ids of days and months begin with 1.
SIZES = {"hour": 24, "weekday": 7, "day": 32, "month": 13}


@dataclasses.dataclass(frozen=True)
class Form:
    """How text holds a time.

    Attributes:
      pattern: a regular expression for Python and for RE2, which must match the whole text.
      fields: what its groups give, in order: `year`, `short_year`, `month`, `day` or `hour`.
      digits: the number of digits, for a format of digits alone, which an integer can hold too.
    """

    pattern: str
    fields: tuple[str, ...]
    digits: Optional[int]

    @property
    def gives(self) -> set[str]:
        return {"year" if field == "short_year" else field for field in self.fields}


@functools.cache
def form_of(text: str) -> Form:
    """The form that a format such as `%Y-%m-%d` describes.

    Raises:
      ValueError: the text does not describe a format.
    """
    pieces = [match.groups() for match in _PIECE.finditer(text)]
    names = [directive for directive, _ in pieces if directive is not None]
    for name in names:
        if name not in _DIRECTIVES:
            raise ValueError(
                f"got %{name} in {text!r}, expected seconds, milliseconds, or a text with some of "
                f"{', '.join(f'%{key}' for key in _DIRECTIVES)}"
            )
        if names.count(name) > 1:
            raise ValueError(f"%{name} is twice in {text!r}. Write it once.")
    if not names:
        raise ValueError(
            f"got {text!r}, expected seconds, milliseconds, or a text with some of "
            f"{', '.join(f'%{key}' for key in _DIRECTIVES)}, such as '%Y-%m-%d'"
        )
    if {"Y", "y"} <= {*names}:
        raise ValueError(f"{text!r} has %Y and %y. Write one of them.")
    pattern, fields = "", []
    for i, (name, other) in enumerate(pieces):
        if name is None:
            pattern += re.escape(other)
            continue
        near = pieces[i - 1 : i] + pieces[i + 1 : i + 2] if i else pieces[1:2]
        joined = any(neighbor is not None and neighbor != "z" for neighbor, _ in near)
        field, free, fixed = _DIRECTIVES[name]
        if joined and not fixed:
            raise ValueError(f"%{name} needs a separator before and after it in {text!r}")
        pattern += fixed if joined else free
        fields += [field] if field else []
    only_digits = all(name in _DIGITS for name, _ in pieces)
    digits = sum(_DIGITS[name] for name in names) if only_digits else None
    return Form(pattern, tuple(fields), digits)


class Time(Sourced):
    """A part of a date or time: its hour, weekday, day of the month or month.

    The ids are 0 to 23 for hours, 0 (Monday) to 6 for weekdays, 1 to 31 for days and 1 to 12 for
    months. A missing value, and a value that is not a time of the format, has no id. `validate`
    counts such values.
    """

    changes = "values"

    kind = "time"
    categorical = True
    named_rows = True
    by_row = frozenset({"source", "format"})
    source: str = Field(
        alias="time", description="The name of a string or int64 feature of one value."
    )
    part: Part = Field(description="The part: `hour`, `weekday`, `day` or `month`.")
    format: str = Field(
        description="How the feature holds the time: `seconds` or `milliseconds` since 1970 (UTC), "
        "or a text with the directives of Python's `strptime` `%Y` (2017), `%y` (17; 69 to 99 are "
        "1969 to 1999), `%m`, `%d`, `%H` (0 to 23), `%M`, `%S`, `%f` (digits of a fraction) and "
        "`%z` (`Z` or an offset, which is not added), such as `%m/%d/%y` for `1/31/17`. Between "
        "separators, one digit is enough. An int64 feature can have a format of directives alone, "
        "such as `%Y%m%d` for 20171107."
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Time:
        if self.format not in UNITS:
            lacks = PARTS[self.part] - form_of(self.format).gives
            if lacks:
                raise ValueError(
                    f"format {self.format!r} has no {' and no '.join(sorted(lacks))}, which the "
                    f"part {self.part} needs. Name another part, or complete the format."
                )
        return self

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, feature = path_to(self, name), spec.features.get(self.source)
        if feature is None:
            yield unknown(path, self.source, "the name of a feature", list(spec.features))
        elif feature.dtype == "float32" or feature.decode is not None:
            what = "float32" if feature.decode is None else "decoded to numbers"
            yield Problem(path, f"feature {self.source!r} is {what}, expected string or int64")
        elif not feature.single:
            yield Problem(path, f"feature {self.source!r} has {feature.form}, expected one value")
        elif feature.dtype == "string" and self.format in UNITS:
            yield Problem(
                ("columns", name, "format"),
                f"feature {self.source!r} is a string, and {self.format} are for int64. Write how "
                "the text is formed, such as '%Y-%m-%d %H:%M'.",
            )
        elif feature.dtype == "int64" and self.format not in UNITS:
            if form_of(self.format).digits is None:
                yield Problem(
                    ("columns", name, "format"),
                    f"feature {self.source!r} is int64, got {self.format!r}, expected seconds, "
                    "milliseconds, or directives alone, such as '%Y%m%d'",
                )

    def missing_value(self, feature: Feature) -> Optional[Scalar]:
        return "" if feature.dtype == "string" else -1

    def id_count(self, spec: Entries) -> int:
        return SIZES[self.part]

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        return {"kind": self.kind, "part": self.part}

    def row_names(self, spec: Entries) -> Sequence[int]:
        return range(SIZES[self.part])

    def canned_name(self, spec: Entries, name: str) -> str:
        return name

    def feature_column(self, reference: Reference, name: str) -> NoReturn:
        raise ValueError(
            f"column {name!r} is time, which tf.feature_column does not have. Train it with a "
            "ModelFn."
        )

    def read(self, value: Union[str, int]) -> Optional[int]:
        """The id of a value of its feature; None if it is missing or not a time of the format."""
        time = read(value, self.format)
        if time is None:
            return None
        return time.weekday() if self.part == "weekday" else int(getattr(time, self.part))


def read(value: Union[str, int], form: str) -> Optional[datetime.datetime]:
    """A time, without minutes, in a format; None if the value is not one.

    What the format lacks is from January 1st, 2000.
    """
    if value in ("", -1):
        return None
    if form in UNITS:
        seconds = int(value) // UNITS[form]
        if not FIRST_SECOND <= seconds <= LAST_SECOND:
            return None
        return _EPOCH + datetime.timedelta(seconds=seconds)
    how = form_of(form)
    text = f"{value:0{how.digits}d}" if isinstance(value, int) else value
    match = re.fullmatch(how.pattern, text)
    if match is None:
        return None
    numbers = dict(zip(how.fields, map(int, match.groups())))
    if "short_year" in numbers:
        short = numbers.pop("short_year")
        numbers["year"] = short + (2000 if short < 69 else 1900)
    try:
        year, month, day = numbers.get("year", 2000), numbers.get("month", 1), numbers.get("day", 1)
        return datetime.datetime(year, month, day, numbers.get("hour", 0))
    except ValueError:
        return None  # The month does not have this day.
