"""Which rows are for evaluation: by key, by number, by time."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import split
from input_pipelines.prepare.convert.options import ConvertOptions
from input_pipelines.prepare.tables import reader

pytestmark = pytest.mark.no_tensorflow


def sides(folder, values, **options):
    """The side of each row of a table with one column, and the resolved options."""
    path = f"{folder}/a.parquet"
    pq.write_table(pa.table({"t": values}), path)
    table = reader.open_table([path])
    resolved = ConvertOptions(**options)
    if resolved.split_time is not None:
        resolved, of_all = split.resolved(table, resolved)
    found, first = [], 0
    for part in table.parts():
        for rows in reader.read(part):
            found += split.sides(rows, first, resolved).tolist()
            first += rows.batch.num_rows
    assert resolved.split_time is None or of_all.tolist() == found
    return found, resolved


def test_the_latest_share_of_the_rows(tmp_path):
    found, resolved = sides(
        tmp_path, [5, 1, 4, 2, 3, 9, 8, 7, 6, 0], split_time="t", eval_fraction=0.3
    )
    assert found == [False] * 5 + [True] * 3 + [False] * 2
    assert (resolved.eval_from, resolved.eval_fraction) == ("7", 0.3)


def test_equal_times_are_on_one_side(tmp_path):
    found, resolved = sides(tmp_path, [1, 1, 2, 2, 2, 2], split_time="t", eval_fraction=0.2)
    assert found == [False, False, True, True, True, True]
    assert resolved.eval_fraction == 4 / 6


def test_three_sides(tmp_path):
    values = [5, 1, 4, 2, 3, 9, 8, 7, 6, 0]
    found, resolved = sides(tmp_path, values, split_time="t", eval_fraction=0.3, test_fraction=0.2)
    assert found == [1, 0, 0, 0, 0, 2, 2, 1, 1, 0]
    assert (resolved.eval_from, resolved.test_from) == ("5", "8")
    assert resolved.shares == pytest.approx({"train": 0.5, "eval": 0.3, "test": 0.2})
    for options in (
        {"eval_from": "5", "test_from": "8"},
        {"eval_fraction": 0.3, "test_from": "8"},
        {"eval_from": "5", "test_fraction": 0.2},
    ):
        assert sides(tmp_path, values, split_time="t", **options) == (found, resolved)
    # The share for evaluation does not change which rows are for testing.
    more, _ = sides(tmp_path, values, split_time="t", eval_fraction=0.6, test_fraction=0.2)
    assert more == [1, 0, 1, 1, 1, 2, 2, 1, 1, 0]


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("as_string", [False, True])
def test_times(tmp_path, zone, as_string):
    start = datetime.datetime(2026, 1, 1, 0, 30)
    values = pa.array([start + datetime.timedelta(hours=i) for i in range(10)],
                      pa.timestamp("ms"))  # fmt: skip
    if zone is not None:
        values = values.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("ms", zone))
    if as_string:
        ends = {None: "", "UTC": "Z", "Asia/Tokyo": "+00:00"}
        values = pa.array([f"2026-01-01T0{i}:30:00{ends[zone]}" for i in range(10)])
    found, resolved = sides(tmp_path, values, split_time="t", eval_fraction=0.2)
    assert found == [False] * 8 + [True] * 2
    assert resolved.eval_from == ("2026-01-01 08:30:00" if zone is None else "2026-01-01T08:30:00Z")
    again, _ = sides(tmp_path, values, split_time="t", eval_from=resolved.eval_from)
    assert again == found


def test_days(tmp_path):
    days = [datetime.date(2026, 1, day) for day in (3, 1, 2)]
    found, resolved = sides(tmp_path, days, split_time="t", eval_fraction=0.3)
    assert found == [True, False, False] and resolved.eval_from == "2026-01-03"
    assert sides(tmp_path, days, split_time="t", eval_from="2026-01-01 12:00")[0] == [
        True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "values, options, message",
    [
        ([3, 3], {"eval_fraction": 0.5}, "--split_eval: all rows are at 3 or later, but "
         "training and evaluation both need rows. Column 't' goes from 3 to 3"),
        ([1, 2, 3], {"eval_from": "2", "test_from": "4"}, "--split_test: no row is at 4 or later, "
         "but training, evaluation and testing all need rows. Column 't' goes from 1 to 3"),
        ([1, 2, 3], {"eval_from": "2", "test_from": "1"}, "--split_test: all rows are at 1 or "
         "later, but training, evaluation and testing all need rows. Column 't' goes from 1 to 3"),
        ([1, 2, 3], {"eval_from": "3", "test_from": "3"}, "--split_eval: no row is at 3 or later "
         "and before 3, but training, evaluation and testing all need rows. Column 't' goes from "
         "1 to 3"),
        ([1, 2, 3], {"eval_from": "1", "test_from": "3"}, "--split_eval: all rows are at 1 or "
         "later and before 3, but training, evaluation and testing all need rows. Column 't' goes "
         "from 1 to 3"),
        (["2026-01-01", "2026-01-02"], {"eval_from": "x"}, "--split_eval: got 'x', expected a time "
         "such as 2026-01-31 10:00:00, as the column has times without a zone"),
        (["2026-01-01T00:00Z"], {"eval_from": "2026-01-01"}, "--split_eval: got '2026-01-01', "
         "expected a time such as 2026-01-31T10:00:00Z, as the column has times with a zone"),
        ([1, None], {"eval_fraction": 0.5}, "{}: row 2: column 't' has no value, but --split "
         "needs one in every row. Correct the row"),
    ],
)  # fmt: skip
def test_splits_that_cannot_be_made(tmp_path, values, options, message):
    with pytest.raises(DataError) as error:
        sides(tmp_path, values, split_time="t", **options)
    assert str(error.value) == message.format(f"{tmp_path}/a.parquet")


def test_the_number_of_a_row_decides(tmp_path):
    found, _ = sides(tmp_path, list(range(20_000)), split_rows=True, eval_fraction=0.1)
    expected = split.mix(split.mix(split.mix(np.arange(20_000, dtype=np.uint64))))
    assert found == (expected / 2.0**64 < 0.1).tolist()
    assert abs(sum(found) - 2000) < 130  # Three standard deviations are 127.
    # The shuffled order puts the rows of each side into all shards.
    numbers = split.random_numbers(0, 20_000, seed=0)
    counts = np.bincount(split.shards_of(numbers, 4)[np.array(found) == 1], minlength=4)
    assert counts.min() > 400
