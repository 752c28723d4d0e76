"""All kinds of tables: kinds by name, invalid options, and the package pyarrow."""

from __future__ import annotations

import re
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from input_pipelines.errors import DataError, MissingPackageError
from input_pipelines.prepare.tables import formats, reader
from input_pipelines.prepare.tables.formats.parquet import Parquet
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files import kinds

pytestmark = pytest.mark.no_tensorflow


@pytest.mark.parametrize(
    "path, kind",
    [
        ("a.csv", kinds.CSV), ("a.CSV.gz", kinds.CSV), ("a.tsv", kinds.CSV),
        ("a.jsonl", kinds.JSON), ("a.json.gz", kinds.JSON), ("a.parquet", kinds.PARQUET),
        ("a.svm", kinds.SVMLIGHT), ("a.svmlight.gz", kinds.SVMLIGHT), ("a.TXT", kinds.SVMLIGHT),
        ("a.tfrecord", kinds.TFRECORD), ("a.tfrecord.gz", kinds.TFRECORD), ("a", kinds.TFRECORD),
        ("a.csv/part-0", kinds.TFRECORD), ("a.parquet.gz", kinds.TFRECORD),
    ],
)  # fmt: skip
def test_kinds(path, kind):
    assert kinds.kind_of(path) == kind


def test_files_of_several_kinds():
    with pytest.raises(DataError) as error:
        kinds.kind_of_all(["a.csv", "b.tsv", "c"])
    assert str(error.value) == (
        "by their names, a.csv is CSV and c is TFRecord; give files of one kind"
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"columns": ("a", "b", "a")}, "--csv_columns: 'a' is listed twice"),
        ({"columns": ("a", "")}, "--csv_columns: a name is empty"),
        ({"delimiter": "ab"},
         "--csv_delimiter: got 'ab', expected one character, such as ; or \\t"),
        ({"delimiter": '"'},
         "--csv_delimiter: got '\"', expected one character, such as ; or \\t"),
        ({"comment": "\n"}, "--csv_comment: got '\\n', expected the text at the start of comment "
         "lines, such as #"),
    ],
)  # fmt: skip
def test_invalid_options(options, message):
    with pytest.raises(ValueError) as error:
        CsvOptions(**options)
    assert str(error.value) == message


def test_options_for_files_that_are_not_csv():
    with pytest.raises(DataError) as error:
        reader.open_table(["a.parquet"], csv=CsvOptions(missing=("?",)))
    assert str(error.value) == (
        "--csv_columns, --csv_delimiter, --csv_skip_spaces, --csv_comment, --csv_missing, "
        "--csv_list_separator and --csv_thousands are only for CSV files, but a.parquet is Parquet "
        "by its name"
    )


class Named(Parquet):
    """A fifth format, which names rows in its own way."""

    def where(self, part, row):
        return f"entry {row} of {part.path}"


def test_a_new_format_is_a_class_and_a_line_in_the_table(tmp_path, monkeypatch):
    monkeypatch.setitem(kinds.TABLES, "Named", kinds.TableKind("named", (".named",)))
    monkeypatch.setitem(formats._FORMATS, "Named", Named())
    path = f"{tmp_path}/a.named"
    pq.write_table(pa.table({"x": pa.array([1, 2, 2**63], pa.uint64())}), path)
    table = reader.open_table([path])
    assert (table.kind, table.cut_anywhere, table.row_groups(path)) == ("Named", True, [3])
    (rows,) = reader.read(table.rows_of(path, 1, 2, [3]))
    assert (rows.batch.to_pydict(), rows.where(0)) == ({"x": [2]}, f"entry 2 of {path}")
    with pytest.raises(DataError, match=rf"^entry 3 of {re.escape(path)}: column 'x'"):
        list(reader.read(table.rows_of(path, 0, 3, [3])))
    assert kinds.table_suffixes() == (
        ".csv, .tsv, .json, .jsonl, .parquet, .svm, .svmlight, .libsvm, .txt or .named"
    )


def test_the_package_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingPackageError) as error:
        reader.open_table(["a.csv"])
    assert str(error.value) == (
        "reading tables needs the package 'pyarrow'; "
        "install it with: pip install 'estimator-kit[tables]'"
    )
