"""Labels that are made from columns: which values pass which test."""

from __future__ import annotations

import pyarrow as pa
import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import derived_labels
from input_pipelines.prepare.convert.options import DerivedLabel
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.reader import Rows, Table

pytestmark = pytest.mark.no_tensorflow


def label(test, values, dtype):
    """The label of each value of a column of this type."""
    kinds = {"string": pa.binary(), "int64": pa.int64(), "float32": pa.float32()}
    array = pa.array(values, kinds[dtype])
    made = DerivedLabel.parse(f"y=x:{test}")
    table = Table(("a.parquet",), "Parquet", (Column("x", dtype),), CsvOptions(), {})
    assert derived_labels.view(table, [made]).columns[-1] == Column("y", "int64")
    rows = Rows(pa.RecordBatch.from_arrays([array], names=["x"]), "a.parquet", 0)
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
        ("above:9223372036854775805", "int64", [2**63 - 3, 2**63 - 2], [0, 1]),
        ("above:0.1", "float32", [0.1, 0.2, None], [0, 1, None]),
        ("equals:0.1", "float32", [0.1, 0.2], [1, 0]),
        ("in:0.5|5", "float32", [0.5, 5.0, 1.0], [1, 1, 0]),
        ("above:3", "float32", [float("inf"), float("-inf")], [1, 0]),
    ],
)
def test_which_values_pass(test, dtype, values, expected):
    assert label(test, values, dtype) == expected


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
