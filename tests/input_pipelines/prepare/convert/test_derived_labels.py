"""Labels that are made from columns: which values pass which test."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import derived_labels
from input_pipelines.prepare.convert.options import DerivedLabel
from input_pipelines.prepare.tables import json_files, reader
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.reader import Rows, Table
from input_pipelines.prepare.tables.table_format import Part

pytestmark = pytest.mark.no_tensorflow


def label(test, values, dtype):
    """The label of each value of a column of this type."""
    kinds = {"string": pa.binary(), "int64": pa.int64(), "float32": pa.float32()}
    array = pa.array(values, kinds[dtype])
    made = DerivedLabel.parse(f"y=x:{test}")
    table = Table(("a.parquet",), "Parquet", (Column("x", dtype),), CsvOptions(), {})
    assert derived_labels.view(table, [made]).columns[-1] == Column("y", "int64")
    batch = pa.RecordBatch.from_arrays([array], names=["x"])
    rows = Rows(batch, Part("a.parquet", "Parquet", 0, ()), 0, written={"x": array})
    return derived_labels.add(rows, [made]).batch.column("y").to_pylist()


@pytest.mark.parametrize(
    "test, dtype, values, expected",
    [
        ("equals:buy", "string", [b"buy", b"Buy", b"", None], [1, 0, 0, None]),
        ("equals:ä:b", "string", ["ä:b".encode(), b"b"], [1, 0]),
        ("in:a|b", "string", [b"a", b"b", b"a|b", None], [1, 1, 0, None]),
        ("equals:3", "int64", [3, 4, None], [1, 0, None]),
        ("in:-1|9223372036854775807", "int64", [-1, 2**63 - 1, 2**63 - 2], [1, 1, 0]),
        ("above:3", "int64", [3, 4, None], [0, 1, None]),
        ("above:3.5", "int64", [3, 4], [0, 1]),
        ("above:-0.5", "int64", [-1, 0], [0, 1]),
        ("above:9007199254740992.5", "int64", [2**53, 2**53 + 1], [0, 1]),
        ("above:9007199254740993.5", "int64", [2**53 + 1, 2**53 + 2], [0, 1]),
        ("above:9223372036854775805", "int64", [2**63 - 3, 2**63 - 2], [0, 1]),
        ("above:0.1", "float32", [0.1, 0.2, None], [0, 1, None]),
        ("equals:0.1", "float32", [0.1, 0.2], [1, 0]),
        ("in:0.5|5", "float32", [0.5, 5.0, 1.0], [1, 1, 0]),
        ("above:3", "float32", [float("inf"), float("-inf")], [1, 0]),
        ("above:16777217", "float32", [16777216.0, 16777218.0], [0, 1]),
        ("equals:16777217", "float32", [16777216.0, 16777218.0], [0, 0]),
        ("in:16777217|16777218", "float32", [16777216.0, 16777218.0], [0, 1]),
        ("equals:0.123456789", "float32", [0.123456789, 0.12345679], [0, 0]),
    ],
)
def test_which_values_pass(test, dtype, values, expected):
    assert label(test, values, dtype) == expected


NEAR = [1000000.0, 1000000.01, 16777216.0, 16777217.0, 0.1, 0.10000000149011612, None]


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "decimal"])
@pytest.mark.parametrize(
    "test, passing",
    [
        ("above:1000000", {1000000.01, 16777216.0, 16777217.0}),
        ("above:1000000.01", {16777216.0, 16777217.0}),
        ("above:16777216", {16777217.0}),
        ("equals:16777216", {16777216.0}),
        ("in:16777217|0.1", {16777217.0, 0.1}),
        ("above:0.1", {*NEAR[:4], 0.10000000149011612}),
    ],
)
def test_numbers_are_compared_with_the_digits_of_the_file(tmp_path, form, test, passing):
    path = str(tmp_path / f"a.{'parquet' if form == 'decimal' else form}")
    if form == "csv":
        lines = ["k,x", *(f"{i},{'' if v is None else repr(v)}" for i, v in enumerate(NEAR))]
        (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    elif form == "jsonl":
        (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {json.dumps(v)}}}\n' for v in NEAR))
    else:
        array = pa.array(NEAR)
        if form == "decimal":
            exact = [None if value is None else Decimal(repr(value)) for value in NEAR]
            array = pa.array(exact, pa.decimal128(38, 17))
        # Two row groups, so that batches are joined.
        pq.write_table(pa.table({"x": array}), path, row_group_size=4)
    made = DerivedLabel.parse(f"y=x:{test}")
    table = reader.open_table([path])
    (part,) = table.parts()
    derived_labels.view(table, [made])
    (rows,) = derived_labels.read(part, [made])
    found = rows.batch
    expected = [None if value is None else int(value in passing) for value in NEAR]
    assert found.column("y").to_pylist() == expected
    assert found.column("x").type == pa.float32()


LARGE = 2**53  # LARGE + 1 is the smallest integer that no float64 is equal to.


def labels(path, tests, dtypes=None):
    """The labels of each row of a file, by the tests; and the notes about the values."""
    made = [DerivedLabel.parse(f"y{i}={test}") for i, test in enumerate(tests)]
    table = reader.open_table([str(path)], dtypes=dtypes)
    derived_labels.view(table, made)
    rounded = Counter()
    found = [
        [row[label.name] for label in made]
        for part in table.parts()
        for rows in derived_labels.read(part, made, rounded)
        for row in rows.batch.to_pylist()
    ]
    return list(map(list, zip(*found))), reader.rounding_notes(rounded)


def test_decimals_without_fractions_are_integers(tmp_path):
    path = tmp_path / "a.parquet"
    numbers = [Decimal(LARGE + 1), Decimal(LARGE), None]
    pq.write_table(pa.table({"x": pa.array(numbers, pa.decimal128(38, 0))}), path)
    found, notes = labels(path, [f"x:above:{LARGE}", f"x:equals:{LARGE + 1}", f"x:in:1|{LARGE}"])
    assert found == [[1, 0, None], [1, 0, None], [0, 1, None]]
    assert notes == []


def test_integers_that_the_spec_stores_as_float32(tmp_path):
    path = tmp_path / "a.parquet"
    unsigned = pa.array([1, 2**64 - 1, 1, 2**64 - 1, 0], pa.uint64())
    pq.write_table(pa.table({"i": [LARGE + 1, LARGE, 2**62 + 1, None, -(2**63)], "u": unsigned}),
                   path)  # fmt: skip
    found, notes = labels(
        path,
        [f"i:above:{LARGE}", f"i:equals:{LARGE + 1}", f"i:equals:{LARGE}.5", "i:above:-1e30",
         "i:above:1e30", f"i:in:{2**62 + 1}|1e30", "u:above:-1", f"u:equals:{2**64 - 1}",
         f"u:above:{2**64 - 2}", f"u:above:{2**64}"],
        {"i": "float32", "u": "float32"},
    )  # fmt: skip
    assert found == [
        [1, 0, 1, None, 0], [1, 0, 0, None, 0], [0, 0, 0, None, 0], [1, 1, 1, None, 1],
        [0, 0, 0, None, 0], [0, 0, 1, None, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0], [0, 0, 0, 0, 0],
    ]  # fmt: skip
    assert notes == [
        "i: 2 values with more than 7 digits, rounded to a float32",
        "u: 2 values with more than 7 digits, rounded to a float32",
    ]


@pytest.mark.parametrize("block", [1, 4 * 2**20])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_integers_among_fractions(tmp_path, monkeypatch, form, block):
    monkeypatch.setattr(json_files, "_BLOCK", block)
    rows = [(LARGE + 1, 1), (1.5, LARGE + 1), (LARGE + 3, 2.5), (LARGE, None), (None, -LARGE - 1)]
    path = tmp_path / f"a.{form}"
    if form == "csv":
        path.write_text("i,f\n" + "".join(f"{i},{f}\n".replace("None", "") for i, f in rows))
    else:
        path.write_text("".join(json.dumps({"i": i, "f": f}) + "\n" for i, f in rows))
    found, notes = labels(
        path,
        [f"i:equals:{LARGE + 1}", f"i:equals:{LARGE}", f"i:above:{LARGE + 1}", f"f:above:{LARGE}",
         f"f:in:2.50|{-LARGE - 1}", f"f:above:{-LARGE - 1}"],
    )  # fmt: skip
    assert found == [
        [1, 0, 0, 0, None], [0, 0, 0, 1, None], [0, 0, 1, 0, None], [0, 1, 0, None, 0],
        [0, 0, 1, None, 1], [1, 1, 1, None, 0],
    ]  # fmt: skip
    assert notes == [
        "f: 2 values with more than 7 digits, rounded to a float32",
        "i: 2 values with more than 7 digits, rounded to a float32",
    ]


def test_all_digits_of_text_and_decimals_are_compared(tmp_path):
    numbers = ["0.1", "0.10000000000000000001", "1e-99999999999999999999", "0", "-1e-400", "1.50",
               "inf"]  # fmt: skip
    (tmp_path / "a.csv").write_text("x\n" + "\n".join(numbers) + "\n")
    tests = ["x:above:0.1", "x:equals:0.1", "x:above:0", "x:in:1.5|0"]
    found, notes = labels(tmp_path / "a.csv", tests)
    assert found == [
        [0, 1, 0, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1, 1], [0, 0, 1, 1, 0, 1, 0],
    ]  # fmt: skip
    assert notes == [
        "x: 1 value with more than 7 digits, rounded to a float32",
        "x: 2 values too close to 0 for a float32, stored as 0",
    ]
    array = pa.array([Decimal(text) for text in ("0.1", numbers[1], "-0.1")], pa.decimal128(30, 20))
    pq.write_table(pa.table({"x": array}), tmp_path / "a.parquet")
    found, notes = labels(tmp_path / "a.parquet", tests[:2])
    assert found == [[0, 1, 0], [1, 0, 0]]
    assert notes == ["x: 1 value with more than 7 digits, rounded to a float32"]


@pytest.mark.parametrize(
    "test, dtype, values, message",
    [
        ("above:3", "string", [b"4"], "--derive_labels: column 'x' is text, so it cannot be above "
         "3. Use equals or in"),
        ("equals:buy", "int64", [1], "--derive_labels: column 'x' is int64, but 'y=x:equals:buy' "
         "compares it with other values. Write values that are int64"),
        ("in:1|b", "float32", [1.0], "--derive_labels: column 'x' is float32, but 'y=x:in:1|b' "
         "compares it with other values. Write values that are float32"),
        ("above:1e300", "int64", [1], "--derive_labels: column 'x' is int64, but 'y=x:above:1e300' "
         "compares it with other values. Write values that are int64"),
        ("equals:9223372036854775808", "int64", [1], "--derive_labels: column 'x' is int64, but "
         "'y=x:equals:9223372036854775808' compares it with other values. Write values that are "
         "int64"),
        ("equals:nan", "float32", [1.0], "--derive_labels: column 'x' is float32, but "
         "'y=x:equals:nan' compares it with other values. Write values that are float32"),
        ("above:1e39", "float32", [1.0], "--derive_labels: column 'x' is float32, but "
         "'y=x:above:1e39' compares it with other values. Write values that are float32"),
        ("above:3", "float32", [1.0, float("nan")], "a.parquet: row 2: column 'x' is NaN, so the "
         "label 'y' cannot be made. Correct the row"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_compared(test, dtype, values, message):
    with pytest.raises(DataError) as error:
        label(test, values, dtype)
    assert str(error.value) == message


@pytest.mark.parametrize("text", ["y=x:equals:a", "y=x:above:3.5", "y=a:b:in:c|d", "y=x:in:a=b"])
def test_a_label_is_text_and_back(text):
    assert str(DerivedLabel.parse(text)) == text
    assert text != "y=a:b:in:c|d" or DerivedLabel.parse(text).column == "a:b"
