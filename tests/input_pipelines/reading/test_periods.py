"""Periods compared with zoneinfo: flag days, leap days, ends of months and years."""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feature_specs.durations import duration
from input_pipelines.reading.periods import Periods

pytestmark = pytest.mark.no_tensorflow

UTC = datetime.timezone.utc
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Lord_Howe",
    "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca", "Asia/Beirut",
)  # fmt: skip
LENGTHS = ("1m", "5m", "15m", "30m", "1h", "6h", "1d")
MOMENTS = st.datetimes(
    datetime.datetime(2000, 1, 1), datetime.datetime(2037, 1, 1), timezones=st.just(UTC)
)


def utc(*values):
    return datetime.datetime(*values, tzinfo=UTC)


def utc_of(seconds):
    return datetime.datetime.fromtimestamp(seconds, tz=UTC)


def all_of(text, first, last):
    found = Periods.of(text)
    return [*found.between(found.named(first), found.named(last))]


@settings(max_examples=300, deadline=None)
@given(MOMENTS, st.sampled_from(ZONES), st.sampled_from(LENGTHS))
def test_a_moment_is_in_the_period_of_its_local_time(moment, zone, length):
    made = Periods.of(f"{length},{zone}")
    period = made.containing(moment)
    assert period.start <= moment < period.end
    assert made.named(period.name) == period
    assert made.containing(period.start) == period
    assert made.containing(period.end - datetime.timedelta(seconds=1)) == period
    after = made.containing(period.end)
    assert (after.start, [*made.between(period, after)]) == (period.end, [period, after])
    local = moment.astimezone(zoneinfo.ZoneInfo(zone))
    if not local.fold:  # The name is the local time, rounded down.
        digits = period.name.replace("T", "-").split("-")
        begin = datetime.datetime(*map(int, digits))
        assert begin <= local.replace(tzinfo=None) < begin + duration(length)


@settings(max_examples=60, deadline=None)
@given(st.dates(datetime.date(2010, 1, 1), datetime.date(2036, 1, 1)), st.sampled_from(ZONES))
def test_a_day_has_the_minutes_of_its_date(date, zone):
    local = zoneinfo.ZoneInfo(zone)
    noon = datetime.datetime(date.year, date.month, date.day, 12, tzinfo=UTC)
    minutes = [noon + datetime.timedelta(minutes=i) for i in range(-28 * 60, 40 * 60)]
    inside = [each for each in minutes if each.astimezone(local).date() == date]
    try:
        day = Periods.of(f"1d,{zone}").named(date.isoformat())
    except ValueError:
        assert not inside  # Samoa had no 30 December 2011.
        return
    assert (day.start, day.end) == (inside[0], inside[-1] + datetime.timedelta(minutes=1))


def test_a_flag_day_has_23_or_25_hours():
    hours = all_of("1h,Europe/Berlin", "2026-03-29T00", "2026-03-29T23")
    assert [hour.name[-3:] for hour in hours[:4]] == ["T00", "T01", "T03", "T04"]
    assert len(hours) == 23
    hours = all_of("1h,Europe/Berlin", "2026-10-25T00", "2026-10-25T23")
    assert len(hours) == 24
    assert hours[2] == ("2026-10-25T02", utc(2026, 10, 25, 0), utc(2026, 10, 25, 2))
    for day, length in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)):
        period = Periods.of("1d,Europe/Berlin").named(day)
        assert period.end - period.start == datetime.timedelta(hours=length)


def test_the_repeated_hour_is_at_its_first_names():
    names = all_of("15m,Europe/Berlin", "2026-10-25T01-45", "2026-10-25T03-00")
    assert [(period.name[-5:], period.start) for period in names] == [
        ("01-45", utc(2026, 10, 24, 23, 45)), ("02-00", utc(2026, 10, 25, 0, 0)),
        ("02-15", utc(2026, 10, 25, 0, 15)), ("02-30", utc(2026, 10, 25, 0, 30)),
        ("02-45", utc(2026, 10, 25, 0, 45)), ("03-00", utc(2026, 10, 25, 2, 0)),
    ]  # fmt: skip
    assert names[4].end == utc(2026, 10, 25, 2)
    made = Periods.of("15m,Europe/Berlin")
    assert made.containing(utc(2026, 10, 25, 1, 20)) == names[4]


@pytest.mark.parametrize("name", ["2026-03-29T02", "2026-02-30T00", "2026-1-5T00", "2026-01-05"])
def test_a_time_that_does_not_exist_is_an_error(name):
    with pytest.raises(ValueError, match=name):
        Periods.of("1h,Europe/Berlin").named(name)


@pytest.mark.parametrize(
    ("text", "name", "after"),
    [
        ("1d", "2028-02-28", "2028-02-29"), ("1d", "2028-02-29", "2028-03-01"),
        ("1d", "2026-02-28", "2026-03-01"), ("1d", "2026-12-31", "2027-01-01"),
        ("1h", "2028-02-29T23", "2028-03-01T00"), ("1h", "2026-04-30T23", "2026-05-01T00"),
        ("5m", "2026-12-31T23-55", "2027-01-01T00-00"),
        ("6h", "2026-01-31T18", "2026-02-01T00"),
    ],
)  # fmt: skip
def test_ends_of_months_and_years(text, name, after):
    assert [period.name for period in all_of(text, name, after)] == [name, after]


@settings(max_examples=100, deadline=None)
@given(st.lists(MOMENTS), st.sampled_from(ZONES), st.sampled_from(LENGTHS))
def test_the_periods_of_times_are_those_of_each_time(moments, zone, length):
    made = Periods.of(f"{length},{zone}")
    times = [moment.timestamp() for moment in moments]
    found = made.of_times(np.array(times))
    assert [*found] == sorted({*found}, key=lambda period: period.start)
    of_each = {place: period for period, places in found.items() for place in places.tolist()}
    assert of_each == {i: made.containing(utc_of(times[i])) for i in range(len(times))}
    assert all(np.array_equal(places, np.sort(places)) for places in found.values())


def test_a_window_is_a_number_of_periods():
    assert Periods.of("5m").count(duration("7d")) == 2016
    with pytest.raises(ValueError, match=r"expected a multiple of 1d, .* got '36h'"):
        Periods().count(duration("36h"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7m", "expected a length that divides a day, such as 1d, 1h or 5m, got '7m'"),
        ("2d", "expected a length that divides a day, such as 1d, 1h or 5m, got '2d'"),
        ("1h,Europe/Berlim", "unknown time zone 'Europe/Berlim'. Did you mean 'Europe/Berlin'?"),
        ("1h,", "unknown time zone ''"),
        ("1h,../x", "unknown time zone '../x'"),
    ],
)
def test_other_periods_are_errors(text, message):
    with pytest.raises(ValueError) as error:
        Periods.of(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "pattern", "name", "filled"),
    [
        ("1d", "a/dt=*/*.x", "2026-01-05", "a/dt=2026-01-05/*.x"),
        ("1d", "a/dt=YYYY-MM-DD/*.x", "2026-01-05", "a/dt=2026-01-05/*.x"),
        ("1d", "a/dt=*/hour=*/*.x", "2026-01-05", "a/dt=2026-01-05/hour=*/*.x"),
        ("1d", "a%Y/dt=*/*.x", "2026-01-05", "a%Y/dt=2026-01-05/*.x"),
        ("1d", "%Y/%m/%d/x/*.x", "2026-01-05", "2026/01/05/x/*.x"),
        ("1h", "a/dt=*/hour=*/*.x", "2026-01-05T13", "a/dt=2026-01-05/hour=13/*.x"),
        ("5m", "a/ts=*/*.x", "2026-01-05T13-35", "a/ts=2026-01-05T13-35/*.x"),
        ("5m", "/a/%Y/%m/%d/%H%M/*.x", "2026-01-05T13-35", "/a/2026/01/05/1335/*.x"),
        ("1h", "s3://a/v1/%Y%m%d.%H/b/*.x", "2026-01-05T13", "s3://a/v1/20260105.13/b/*.x"),
    ],
)
def test_a_pattern_has_the_folder_of_a_period(text, pattern, name, filled):
    made = Periods.of(text)
    assert made.has(pattern) and made.fill(pattern, name) == filled
    folder = made.folder(pattern, name)
    assert filled.startswith(f"{folder}/")
    period = made.of_folder(pattern, f"{folder}/")
    assert period == made.named(name)
    assert made.folders(pattern).count("*") in (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("text", "pattern", "message"),
    [
        ("1d", "a/*.x", "0 parts dt=*, expected one"),
        ("1d", "a/dt=*/dt=*/*.x", "2 parts dt=*, expected one"),
        ("1d", "a/ts=*/*.x", "For other periods, set --period"),
        ("1h", "a/dt=*/*.x", "has no folder for periods of 1h: expected one dt=*/hour=* or ts=*"),
        ("5m", "a/dt=*/hour=*/*.x", "expected each of %Y, %m, %d, %H, %M once for periods of 5m"),
        ("5m", "a/%Y/%m/%d/*/%H%M/*.x", "no wildcard between them"),
        ("5m", "a/%Y/%m/%d/%H%M%S/*.x", "has the folders %Y/%m/%d/%H%M%S, expected each of"),
        ("1d", "a/%Y/%m/%d/%d/*.x", "expected each of %Y, %m, %d once"),
        ("1h", "a/%Y%m%d%H.x", "names no files in the folder of a period"),
    ],
)
def test_another_pattern_is_an_error(text, pattern, message):
    assert not Periods.of(text).has(pattern)
    with pytest.raises(ValueError) as error:
        Periods.of(text).parts(pattern)
    assert message in str(error.value)


def test_folders_of_other_names():
    made, pattern = Periods.of("5m"), "a/ts=*/*.x"
    assert made.of_folder(pattern, "a/ts=tmp") is None
    for name in ("ts=2026-01-05T13-33", "ts=2026-02-30T13-30"):
        with pytest.raises(ValueError, match=name[3:]):
            made.of_folder(pattern, f"a/{name}")


@pytest.mark.parametrize(
    ("text", "as_of", "newest"),
    [
        ("1d", "2026-01-05", "2026-01-05"),
        ("1h", "2026-01-05", "2026-01-05T23"),
        ("1h,Europe/Berlin", "2026-10-25T02", "2026-10-25T02"),
        ("6h", "2026-01-05T13", "2026-01-05T12"),
        ("5m", "2026-01-05T13", "2026-01-05T13-55"),
        ("5m", "2026-01-05T13-33", "2026-01-05T13-30"),
        ("15m,Europe/Berlin", "2026-10-25T02", "2026-10-25T02-45"),
    ],
)
def test_the_newest_period_of_a_time(text, as_of, newest):
    assert Periods.of(text).newest(as_of).name == newest


@pytest.mark.parametrize(
    ("text", "as_of"),
    [("1d", "2026-01-05T13"), ("1d", "today"), ("1h", "2026-01-05T25"), ("1h", "9999-12-31"),
     ("1h,Europe/Berlin", "2026-03-29T02"), ("1d,Pacific/Apia", "2011-12-30"),
     ("1d", "20260105"), ("1d", "2026-W02-1")],  # Python 3.11 reads these as dates.
)  # fmt: skip
def test_another_time_is_an_error(text, as_of):
    with pytest.raises(ValueError, match="expected a day such as 2026-01-31"):
        Periods.of(text).newest(as_of)


def test_days_before_are_days_of_the_zone():
    berlin = Periods.of("1d,Europe/Berlin")
    monday = berlin.named("2026-03-30")
    assert berlin.before(monday, duration("2d")) == berlin.named("2026-03-28").start
    hours = Periods.of("1h,Europe/Berlin")
    assert hours.before(hours.named("2026-03-29T04"), duration("3h")) == utc(2026, 3, 28, 23)
