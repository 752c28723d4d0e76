"""Numbers with commas between thousands: found by an analysis, kept in the spec, read elsewhere."""

from __future__ import annotations

from collections import Counter

import pytest

import feature_specs
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.options import CsvOptions

TEXT = (
    'whole,income,words,groups,plain,click\n"1,234","69,487.50",x,"1,2",5,0\n12,"1,000.",y,3,6,1\n'
    ',.5,"1,000","12,34",7,0\n"-2,000,001",-4.5,z,"1,000",8,1\n'
)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    return str(tmp_path / "a.csv")


def table(path, dtypes=None, **options):
    opened = reader.open_table([path], csv=CsvOptions(**options), dtypes=dtypes)
    rows = [
        row
        for part in opened.parts()
        for found in reader.read(part, Counter())
        for row in found.batch.to_pylist()
    ]
    return opened, {c.name: c.dtype for c in opened.columns}, rows


def test_an_analysis_finds_them_by_columns_of_numbers(path):
    opened, dtypes, rows = table(path)
    assert dtypes == {
        "whole": "int64", "income": "float32", "words": "string", "groups": "string",
        "plain": "int64", "click": "int64",
    }  # fmt: skip
    assert [row["whole"] for row in rows] == [1234, 12, None, -2000001]
    assert [row["income"] for row in rows] == [69487.5, 1000.0, 0.5, -4.5]
    # Text stays as it is, also where it could be a number.
    assert [row["words"] for row in rows] == [b"x", b"y", b"1,000", b"z"]
    assert [row["groups"] for row in rows] == [b"1,2", b"3", b"12,34", b"1,000"]
    assert opened.csv.thousands is True and opened.csv.flags["csv_thousands"] is True
    assert opened.notes[0] == (
        "commas separate the thousands of numbers in 'whole', 'income', which a spec must say "
        "(tables: {csv_thousands: true}); use --nocsv_thousands to read them as text"
    )


def test_without_them_the_values_are_text(path):
    opened, dtypes, rows = table(path, thousands=False)
    assert (dtypes["whole"], dtypes["income"], dtypes["plain"]) == ("string", "string", "int64")
    assert rows[0]["whole"] == b"1,234"
    assert "csv_thousands" not in opened.csv.flags


def test_no_number_with_commas_decides_nothing(tmp_path):
    (tmp_path / "b.csv").write_text('a,b\n1,"1,000 men"\n')
    opened, dtypes, _ = table(str(tmp_path / "b.csv"))
    assert dtypes == {"a": "int64", "b": "string"} and opened.csv.thousands is False


def test_a_spec_decides(path):
    numbers = {"whole": "int64", "income": "float32"}
    _, _, rows = table(path, numbers, thousands=True)
    assert [row["whole"] for row in rows] == [1234, 12, None, -2000001]
    with pytest.raises(DataError) as error:
        table(path, numbers)
    assert str(error.value).endswith(
        "column 'whole': got '1,234', expected int64, as the spec says; if commas separate "
        "thousands, write csv_thousands: true in the section tables of the spec, or pass "
        "--csv_thousands"
    )
    with pytest.raises(DataError, match=r"column 'income': got '\.5', expected int64"):
        table(path, {"income": "int64"}, thousands=True)


def test_the_first_spec_keeps_it(path, tmp_path):
    first_spec.write([path], labels=["click"], directory=str(tmp_path / "first"), min_count=1)
    spec = feature_specs.load(tmp_path / "first" / "spec.yaml")
    assert spec.tables.csv_thousands is True
    assert (spec.features["whole"].dtype, spec.features["income"].dtype) == ("int64", "float32")


def test_a_list_separator_wins(path):
    opened, dtypes, rows = table(path, list_separator=",")
    assert opened.csv.thousands is False and dtypes["whole"] == "string"
    assert rows[0]["whole"] == [b"1", b"234"]
