"""Numbers, dates and times as numbers that compare in the same order."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.row_times import RowTimes

pytestmark = pytest.mark.no_tensorflow

SECOND = 10**9  # nanoseconds


def times(values, dtype="string"):
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    return RowTimes("t", "--order_by", dtype=dtype).read(array, "row {}".format)


def message(values, dtype="string"):
    with pytest.raises(DataError) as error:
        times(values, dtype)
    return str(error.value)


def test_integers_keep_all_digits():
    big = 2**62
    assert times([big + 1, big], "int64").tolist() == [big + 1, big]
    assert times([str(big + 1), str(big)], "int64").tolist() == [big + 1, big]


def test_numbers_have_more_digits_than_a_float32():
    found = times(["1700000000.5", "1700000000.25"], "float32")
    assert found.tolist() == [1700000000.5, 1700000000.25]
    assert np.float32(1700000000.5) == np.float32(1700000000.25)


@pytest.mark.parametrize(
    "text, expected",
    [
        (["1970-01-02", "1970-01-01 00:01", "1970-01-01T00:00:00.5"], [86400.0, 60.0, 0.5]),
        (["1970-01-01T00:00:00Z", "1970-01-01T02:00:01+02:00"], [0.0, 1.0]),
    ],
)
def test_text_is_parsed_with_its_zone(text, expected):
    assert (times(text) / SECOND).tolist() == expected
    assert (times(pa.array(text).cast(pa.binary())) / SECOND).tolist() == expected
    assert (times(pa.array(text).dictionary_encode()) / SECOND).tolist() == expected


def test_types_of_dates_and_times():
    day, hour = datetime.date(1970, 1, 3), datetime.time(1)
    assert (times(pa.array([day])) / SECOND).tolist() == [2 * 86400.0]
    assert (times(pa.array([hour])) / SECOND).tolist() == [3600.0]
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "Asia/Tokyo"):
            stamps = pa.array([1000], pa.int64()).cast(pa.timestamp("s", zone))
            assert times(stamps.cast(pa.timestamp(unit, zone))).tolist() == [1000 * SECOND]


def test_a_value_that_cannot_be_compared_names_its_row():
    needs = "but --order_by needs to compare it. Write times as 2026-01-31 10:00:00 or as numbers"
    assert message(["2026-01-31", "31/1/2026"]) == (
        "row 1: column 't': got '31/1/2026', which is not a time such as 2026-01-31 10:00:00, "
        + needs
    )
    assert message(["1767270588", "1767270589", "yesterday"]) == (
        f"row 2: column 't': got 'yesterday', which is not a number as in row 0, {needs}"
    )
    assert message(["2026-01-31", "9"]).startswith(
        "row 1: column 't': got '9', which is not a time"
    )
    assert message(["9", "10"]).startswith("row 0: column 't': got '9', which is not a time")
    assert message([1.0, float("nan")], "float32") == (
        f"row 1: column 't': got nan, which is not a number, {needs}"
    )
    assert message([1, None], "int64") == (
        "row 1: column 't' has no value, but --order_by needs one in every row. Correct the row"
    )
    far = pa.array([10**14], pa.int64()).cast(pa.timestamp("s"))
    assert "outside of the years 1678 to 2262" in message(far)


def test_all_times_have_a_zone_or_none_has_one():
    assert message(["2026-01-31", "2026-01-31T00:00:00Z"]) == (
        "row 1: column 't': got '2026-01-31T00:00:00Z' after times without a zone. Write all times "
        "with a zone, or all without one"
    )
    clock = RowTimes("t", "--order_by", dtype="string")
    clock.read(pa.array(["2026-01-31T00:00:00Z"]), "row {}".format)
    with pytest.raises(DataError, match=r"got '2026-01-31' after times with a zone\. Write all"):
        clock.read(pa.array(["2026-01-31"]), "row {}".format)
