"""The kind `time`: formats, and times as Python's `strptime` reads them."""

from __future__ import annotations

import datetime

import pytest

import feature_specs
from feature_specs.kinds.time import PARTS, Time, form_of, read

pytestmark = pytest.mark.no_tensorflow


def parsed(column, **feature):
    spec = {
        "features": {"x": {"dtype": "string", **feature}},
        "columns": {"c": {"time": "x", **column}},
        "groups": {"wide": ["c"]},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }
    return feature_specs.parse(spec)


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        ("2017-11-07 9:30", "%Y-%m-%d %H:%M", (9, 1, 7, 11)),
        ("1/31/11", "%m/%d/%y", (0, 0, 31, 1)),
        ("2/29/00", "%m/%d/%y", (0, 1, 29, 2)),
        ("2/29/01", "%m/%d/%y", None),
        ("1900-02-29", "%Y-%m-%d", None),
        ("0000-01-01", "%Y-%m-%d", None),
        ("31.12.1999 23:59:59", "%d.%m.%Y %H:%M:%S", (23, 4, 31, 12)),
        ("2017-11-07T09:30:00.125+02:00", "%Y-%m-%dT%H:%M:%S.%f%z", (9, 1, 7, 11)),
        ("2017-11-07T09:30:00.1Z", "%Y-%m-%dT%H:%M:%S.%f%z", (9, 1, 7, 11)),
        ("2017-11-07 24:00", "%Y-%m-%d %H:%M", None),
        ("2017-11-07 9:60", "%Y-%m-%d %H:%M", None),
        ("2017-11-07 9:30 ", "%Y-%m-%d %H:%M", None),
        ("2017-11-0\N{ARABIC-INDIC DIGIT SEVEN}", "%Y-%m-%d", None),
        ("", "%Y-%m-%d", None),
        (14102100, "%y%m%d%H", (0, 1, 21, 10)),
        (9102105, "%y%m%d%H", (5, 2, 21, 10)),  # With a zero in front.
        (20140921, "%Y%m%d", (0, 6, 21, 9)),
        (20140931, "%Y%m%d", None),
        (-20140921, "%Y%m%d", None),
        (0, "seconds", (0, 3, 1, 1)),
        (-2, "seconds", (23, 2, 31, 12)),
        (-1, "seconds", None),
        (951_868_799, "seconds", (23, 1, 29, 2)),
        (951_868_800_000, "milliseconds", (0, 2, 1, 3)),
        (253_402_300_800, "seconds", None),
    ],
)
def test_parts_of_a_time(value, form, expected):
    time = read(value, form)
    if expected is None:
        assert time is None
        return
    assert (time.hour, time.weekday(), time.day, time.month) == expected
    for part, number in zip(PARTS, expected):
        if form in ("seconds", "milliseconds") or PARTS[part] <= form_of(form).gives:
            assert Time(time="x", part=part, format=form).read(value) == number
    if isinstance(value, str) and "Z" not in value:  # Python 3.9 reads no Z.
        assert time.date() == datetime.datetime.strptime(value, form).date()


@pytest.mark.parametrize(
    ("column", "feature", "message"),
    [
        ({"part": "hour", "format": "%Y-%m-%d"}, {},
         "columns.c: format '%Y-%m-%d' has no hour, which the part hour needs. Name another part, "
         "or complete the format."),
        ({"part": "weekday", "format": "%H:%M"}, {},
         "columns.c: format '%H:%M' has no day and no month and no year, which the part weekday "
         "needs. Name another part, or complete the format."),
        ({"part": "hour", "format": "%I:%M"}, {},
         "columns.c: got %I in '%I:%M', expected seconds, milliseconds, or a text with some of %Y, "
         "%y, %m, %d, %H, %M, %S, %f, %z"),
        ({"part": "hour", "format": "minutes"}, {},
         "columns.c: got 'minutes', expected seconds, milliseconds, or a text with some of %Y, %y, "
         "%m, %d, %H, %M, %S, %f, %z, such as '%Y-%m-%d'"),
        ({"part": "hour", "format": "%H %H"}, {},
         "columns.c: %H is twice in '%H %H'. Write it once."),
        ({"part": "day", "format": "%y %Y %d"}, {},
         "columns.c: '%y %Y %d' has %Y and %y. Write one of them."),
        ({"part": "hour", "format": "%H%f"}, {},
         "columns.c: %f needs a separator before and after it in '%H%f'"),
        ({"part": "year", "format": "%Y"}, {},
         "columns.c.part: got 'year', expected 'hour', 'weekday', 'day' or 'month'"),
        ({"part": "hour", "format": "seconds"}, {},
         "columns.c.format: feature 'x' is a string, and seconds are for int64. Write how the text "
         "is formed, such as '%Y-%m-%d %H:%M'."),
        ({"part": "day", "format": "%d.%m"}, {"dtype": "int64"},
         "columns.c.format: feature 'x' is int64, got '%d.%m', expected seconds, milliseconds, or "
         "directives alone, such as '%Y%m%d'"),
        ({"part": "hour", "format": "seconds"}, {"dtype": "float32"},
         "columns.c.time: feature 'x' is float32, expected string or int64"),
        ({"part": "day", "format": "%d.%m"}, {"shape": "variable"},
         "columns.c.time: feature 'x' has the shape variable, expected one value"),
    ],
)  # fmt: skip
def test_what_is_not_a_time(column, feature, message):
    with pytest.raises(feature_specs.SpecError) as error:
        parsed(column, **feature)
    assert message in str(error.value)


def test_ids_of_times():
    spec = parsed({"part": "month", "format": "%Y-%m"}, default="")
    column = spec.columns["c"]
    assert spec.size_of("c") == 13 and list(column.row_names(spec)) == list(range(13))
    assert spec.missing_value("x") == ""
    # How a record writes a time does not change what an id means.
    other = parsed({"part": "month", "format": "%m/%Y"}, default="").columns["c"]
    assert column.own_meaning() == other.own_meaning()
