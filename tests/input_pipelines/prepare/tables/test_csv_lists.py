"""Lists in the fields of CSV files."""

from __future__ import annotations

from collections import Counter

import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.options import CsvOptions

pytestmark = pytest.mark.no_tensorflow


def write(path, text):
    path.write_text(text)
    return str(path)


def load(*paths, separator="|", **options):
    """{column: (type, whether it has lists)}, its rows, and the notes."""
    rounded = Counter()
    table = reader.open_table(paths, csv=CsvOptions(list_separator=separator), **options)
    rows = [
        row
        for part in table.parts()
        for found in reader.read(part, rounded)
        for row in found.batch.to_pylist()
    ]
    return {column.name: (column.dtype, column.multi) for column in table.columns}, rows, table


def test_a_column_with_the_separator_has_lists(tmp_path):
    text = 'name,tags,ids,prices,whole\na,x|y,1|2,0.5|1,"a,b"\nb,x,3,2,c\nc,,,,\nd,"",4|,5,d\n'
    types, rows, _ = load(write(tmp_path / "a.csv", text.replace("4|", "4|5")))
    assert types == {
        "name": ("string", False), "tags": ("string", True), "ids": ("int64", True),
        "prices": ("float32", True), "whole": ("string", False),
    }  # fmt: skip
    assert rows == [
        {"name": b"a", "tags": [b"x", b"y"], "ids": [1, 2], "prices": [0.5, 1.0], "whole": b"a,b"},
        {"name": b"b", "tags": [b"x"], "ids": [3], "prices": [2.0], "whole": b"c"},
        {"name": b"c", "tags": None, "ids": None, "prices": None, "whole": None},
        {"name": b"d", "tags": [], "ids": [4, 5], "prices": [5.0], "whole": b"d"},
    ]
    path = write(tmp_path / "b.csv", text.replace("4|", "4|5"))
    for rows in reader.read(next(reader.open_table([path]).parts())):
        assert rows.batch.column("tags").to_pylist() == [b"x|y", b"x", None, b""]


def test_one_file_decides_for_all(tmp_path):
    first = write(tmp_path / "a.csv", "tags\nx\ny\n")
    second = write(tmp_path / "b.csv", "tags\nx, z\n".replace(", ", "--"))
    types, rows, _ = load(first, second, separator="--")
    assert types == {"tags": ("string", True)}
    assert [row["tags"] for row in rows] == [[b"x"], [b"y"], [b"x", b"z"]]


def test_a_spec_decides_which_columns_have_lists(tmp_path):
    """A file of one row may have no separator, and its `""` is an empty list all the same."""
    path = write(tmp_path / "a.csv", 'tags,name,n\nx,b,1\n"","",2\n')
    of_spec = {"dtypes": {"tags": "string", "name": "string", "n": "int64"}, "lists": {"tags", "n"}}
    types, rows, _ = load(path, **of_spec)
    assert types == {"tags": ("string", True), "name": ("string", False), "n": ("int64", True)}
    assert rows == [
        {"tags": [b"x"], "name": b"b", "n": [1]}, {"tags": [], "name": b"", "n": [2]},
    ]  # fmt: skip
    # Without a separator, CSV has no lists.
    types, rows, _ = load(path, separator="", **of_spec)
    assert rows[1] == {"tags": b"", "name": b"", "n": 2}


def test_a_type_from_a_spec(tmp_path):
    path = write(tmp_path / "a.csv", "ids,words\n1|2,3|4\n")
    types, rows, _ = load(path, dtypes={"ids": "float32", "words": "string"})
    assert types == {"ids": ("float32", True), "words": ("string", True)}
    assert rows == [{"ids": [1.0, 2.0], "words": [b"3", b"4"]}]


def test_notes_and_errors_name_the_row_of_a_value(tmp_path):
    path = write(tmp_path / "a.csv", "ids\n1|2\n3\n4|?|5\n6\n")
    _, _, table = load(path)
    assert table.notes == [
        f"ids: text, because 1 of 7 values are not numbers, the first one '?' in {path}: line 4; "
        "if it means a missing value, name it with --csv_missing"
    ]
    with pytest.raises(DataError) as error:
        load(path, dtypes={"ids": "int64"})
    assert str(error.value).startswith(f"{path}: line 4: column 'ids': got '?', expected int64")


@pytest.mark.parametrize("field", ["a||b", "|a", "a|", "|"])
def test_an_empty_value_in_a_list(tmp_path, field):
    path = write(tmp_path / "a.csv", f"tags,n\na|b,1\n{field},2\n")
    with pytest.raises(DataError) as error:
        load(path, dtypes={"tags": "string"})
    assert str(error.value) == (
        f"{path}: line 3: column 'tags': got {field!r}, a list with an empty value, as "
        "--csv_list_separator is '|'. Remove the empty value"
    )


def test_the_separator_is_text_that_a_field_can_have():
    for wrong in ('"', "\n", "a\0"):
        with pytest.raises(ValueError) as error:
            CsvOptions(list_separator=wrong)
        assert str(error.value) == (
            f"--csv_list_separator: got {wrong!r}, expected the text between the values of a list, "
            "such as |"
        )
    assert CsvOptions(list_separator="|").flags == {
        "csv_skip_spaces": False, "csv_missing": [], "csv_list_separator": "|",
    }  # fmt: skip
    assert "list_separator" not in CsvOptions().document()
    assert CsvOptions(("a",), list_separator="|").document() == {
        "columns": ["a"], "delimiter": "", "skip_spaces": None, "comment": "", "missing": [],
        "list_separator": "|",
    }  # fmt: skip
