"""svmlight files as tables: columns, types, missing values, and errors with line numbers."""

from __future__ import annotations

import gzip

import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import reader, svmlight_lines

pytestmark = pytest.mark.no_tensorflow


def write(path, text):
    path.write_bytes(text.encode())
    return str(path)


def load(*paths, **options):
    """{column: type} and the rows."""
    table = reader.open_table(paths, **options)
    rows = [row for part in table.parts() for r in reader.read(part) for row in r.batch.to_pylist()]
    return {column.name: column.dtype for column in table.columns}, rows


TEXT = """\
# queries of a test
2 qid:10 1:0.5 2:NULL 4:7 #docid = GX000
0 qid:10 4:-1 2:3

+1 qid:11 1:1e-1\t2:+4  # NULL and absent differ: \xe9
"""


def test_absent_is_zero_and_null_is_missing(tmp_path):
    types, rows = load(write(tmp_path / "a.svm", TEXT))
    assert types == {
        "label": "int64", "qid": "int64", "f1": "float32", "f2": "int64", "f3": "int64",
        "f4": "int64",
    }  # fmt: skip
    assert [[*row.values()] for row in rows] == [
        [2, 10, 0.5, None, 0, 7],
        [0, 10, 0.0, 3, 0, -1],
        [1, 11, pytest.approx(0.1), 4, 0, 0],
    ]


def test_other_names_and_compression(tmp_path):
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(b"-1.5 0:1 2:2\n3 1:1"))
    types, rows = load(str(path))
    assert types == {"label": "float32", "f0": "int64", "f1": "int64", "f2": "int64"}
    assert [[*row.values()] for row in rows] == [[-1.5, 1, 0, 2], [3.0, 0, 1, 0]]


def test_columns_of_all_files_and_of_the_spec(tmp_path):
    paths = [write(tmp_path / "a.svm", "1 1:1\n"), write(tmp_path / "b.svm", "0 3:0.5\n")]
    types, rows = load(*paths)
    assert types == {"label": "int64", "f1": "int64", "f2": "int64", "f3": "float32"}
    assert rows == [
        {"label": 1, "f1": 1, "f2": 0, "f3": 0.0},
        {"label": 0, "f1": 0, "f2": 0, "f3": 0.5},
    ]
    # A later file of the same data may end with a smaller number.
    dtypes = {"label": "int64", "f1": "float32", "f4": "int64"}
    types, rows = load(paths[0], dtypes=dtypes, only=dtypes)
    assert types == {"label": "int64", "f1": "float32", "f4": "int64"}
    assert rows == [{"label": 1, "f1": 1.0, "f4": 0}]


def test_columns_beside_those_of_the_spec(tmp_path):
    """As predictions keep them: the text of the file."""
    path = write(tmp_path / "a.svm", TEXT)
    table = reader.open_table([path], dtypes={"f1": "float32"}, only=["f1"])
    ((rows, kept),) = reader.read_beside(next(table.parts()), ["qid", "f3", "f2", "f1", "other"])
    assert rows.batch.schema.names == ["f1"]
    assert [column.to_pylist() for column in kept] == [
        ["10", "10", "11"], ["0", "0", "0"], [None, "3", "4"], ["0.5", "0", "1e-1"],
        [None, None, None],
    ]  # fmt: skip


def test_a_part_of_the_rows_of_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(svmlight_lines, "_BLOCK", 64)
    monkeypatch.setattr(svmlight_lines, "_ROWS", 3)
    text = "".join(f"{i % 2} 1:{i}\n{'# note' if i % 3 else ''}\n" for i in range(100))
    path = write(tmp_path / "a.svm", text)
    table = reader.open_table([path])
    assert table.row_groups(path) == [100]
    found = [
        value
        for rows in reader.read(table.rows_of(path, 40, 52, [100]))
        for value in rows.batch.column("f1").to_pylist()
    ]
    assert found == [*range(40, 52)]
    (first, *_) = reader.read(table.rows_of(path, 40, 52, [100]))
    assert first.where(0) == f"{path}: line 81"  # Two lines for each of the 40 rows before it.


@pytest.mark.parametrize(
    "text, message",
    [
        ("1 1:2\n\n0 1:x\n", "line 3: f1: got 'x', expected a number or NULL"),
        ("1 1:2\n1,2 1:1\n", "line 2: label: got '1,2', expected a number"),
        ("NULL 1:2\n", "line 1: label: got 'NULL', expected a number"),
        ("1 1:2\n1 a:1\n",
         "line 2: got 'a:1', expected label 1:value 2:value ..., or label qid:10 1:value ..."),
        ("1 1:2\n1 2:1 1:3 2:4\n",
         "line 2: it has the number 2 twice. Remove one of the two values"),
        ("1 1:2 10000:1\n",
         "line 1: got the number 10,000 of a value, expected at most 9,990: each number becomes a "
         "column. Write words and their weights as lists, in JSON lines"),
        ("1 qid:1 1:2\n1 1:1\n",
         "line 2: it has no qid, unlike other lines. All lines must have one, or none"),
        ("1 qid:1 qid:2\n", "line 1: it has two qids. Remove one"),
        ("1 \xe9\n", "line 1: got b'1 \\xc3\\xa9', expected label 1:value 2:value ..., or label "
         "qid:10 1:value ..., in ASCII"),
    ],
)  # fmt: skip
def test_errors(tmp_path, text, message):
    path = write(tmp_path / "a.svm", text)
    with pytest.raises(DataError) as error:
        reader.open_table([path])
    assert str(error.value) == f"{path}: {message}"


def test_a_text_file_of_another_kind(tmp_path):
    path = write(tmp_path / "a.txt", "name,age\nann,3\n")
    with pytest.raises(DataError) as error:
        reader.open_table([path])
    assert str(error.value) == (
        f"{path}: line 1: label: got 'name,age', expected a number. Files with .txt are read as "
        "svmlight. If it is CSV, rename it to .csv or .tsv"
    )


def test_nothing_to_read(tmp_path):
    path = write(tmp_path / "a.svm", "# only a comment\n")
    with pytest.raises(DataError) as error:
        reader.open_table([path])
    assert str(error.value) == f"{path}: it has no line with values, such as 1 1:0.5 2:3"


def test_a_type_that_the_spec_does_not_have(tmp_path):
    path = write(tmp_path / "a.svm", "1 1:2\n1 1:2.5\n")
    with pytest.raises(DataError) as error:
        reader.open_table([path], dtypes={"label": "int64", "f1": "int64"})
    assert str(error.value) == (
        f"{path}: line 2: f1: got '2.5', expected int64, as the spec says; correct the spec"
    )


def test_a_qid_in_some_files_only(tmp_path):
    paths = [write(tmp_path / "a.svm", "1 qid:1 1:1\n"), write(tmp_path / "b.svm", "0 1:1\n")]
    with pytest.raises(DataError) as error:
        reader.open_table(paths)
    assert str(error.value) == (
        f"{paths[1]} lacks a qid, unlike {paths[0]}; all files of a table must have it, or none"
    )
