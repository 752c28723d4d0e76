"""JSON lines: values, types of whole files, and mistakes with their row."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import json_files, json_texts, reader

pytestmark = pytest.mark.no_tensorflow


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def load(*paths, dtypes=None):
    table = reader.open_table(paths, dtypes=dtypes)
    rows = [row for part in table.parts() for f in reader.read(part) for row in f.batch.to_pylist()]
    return {c.name: (c.dtype, c.multi) for c in table.columns}, rows


ROWS = [
    {"a": 1, "day": "2011-01-01", "tags": [], "t": True, "s": "00123"},
    {"a": 2, "tags": ["x", "2011-01-01"], "t": None, "s": "ß\n"},
    {"day": "soon", "tags": None, "s": "", "n": None},
]


@pytest.mark.parametrize("block", [1, 4 * 2**20])
def test_values_and_types(tmp_path, monkeypatch, block):
    monkeypatch.setattr(json_files, "_BLOCK", block)
    one = write(tmp_path / "1.jsonl", [json.dumps(ROWS[0]), "", *map(json.dumps, ROWS[1:])])
    two = write(tmp_path / "2.jsonl", ['{"a": 1.5, "s": "x"}'])
    types, rows = load(one, two)
    assert types == {
        "a": ("float32", False), "day": ("string", False), "tags": ("string", True),
        "t": ("int64", False), "s": ("string", False), "n": (None, False),
    }  # fmt: skip
    assert [row["a"] for row in rows] == [1.0, 2.0, None, 1.5]
    assert [row["day"] for row in rows] == [b"2011-01-01", None, b"soon", None]
    assert [row["tags"] for row in rows] == [[], [b"x", b"2011-01-01"], None, None]
    assert [row["t"] for row in rows] == [1, None, None, None]
    assert [row["s"] for row in rows] == [b"00123", "ß\n".encode(), b"", b"x"]
    assert load(one, dtypes={"a": "float32"})[0]["a"] == ("float32", False)


@pytest.mark.parametrize("block", [1, 4 * 2**20])
@pytest.mark.parametrize(
    "lines, message",
    [
        (['{"a": 1}', '{"a": "x"}'], {
            1: "column 'a' is a number in FILE: row 1 and text in FILE: row 2; a feature must have "
               "one type",
            4 * 2**20: "FILE: row 2: the values of 'a' change from number to string; each line "
                       "must have one object, and the values of a key must have one type"}),
        (["", " null", '{"a": 1}'],
         "FILE: row 1: is null; each line must have one object. Remove the line, or write {} for a "
         "row without values"),
        (['{"a": 1}', "", "null"],
         "FILE: row 2: is null; each line must have one object. Remove the line, or write {} for a "
         "row without values"),
        (['{"a": 1}', '{"a": 1'],
         "FILE: row 2: Missing a comma or '}' after an object member; each line must have one "
         "object, and the values of a key must have one type"),
        (['{"b": 1}', '{"a": 1, "a": 2}'],
         "FILE: row 2: Column(/a) was specified twice; each line must have one object, and the "
         "values of a key must have one type"),
        (['{"b": 1}', '{"a": {"x": 1}}'],
         "FILE: row 2: column 'a' is struct<x: int64>, which a feature cannot store. Write "
         "its parts as separate columns, or leave it out of the file"),
        (['{"b": 1}', '{"a": [1, null]}'],
         "FILE: row 2: column 'a': a list has a null, which a record cannot store. Remove it "
         "from the list, or write a value for it"),
        (['{"b": 1}', '{"a": 12345678901234567891}'],
         "FILE: row 2: column 'a': got 12345678901234567891, which is too large for int64. Store "
         "the column as text"),
        (['{"b": 1}', "[" * 5000],  # This would end the process.
         "FILE: row 2: is nested more than 50 levels deep; a value must be a number, a text, or "
         "a list of them"),
        (["{}", "{}"],
         "FILE: row 1: this object and the objects that follow it have no keys"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path, monkeypatch, block, lines, message):
    monkeypatch.setattr(json_files, "_BLOCK", block)
    path = write(tmp_path / "a.jsonl", lines)
    with pytest.raises(DataError) as error:
        load(path)
    message = message[block] if isinstance(message, dict) else message
    assert str(error.value) == message.replace("FILE", path)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["{" * 51], 0),
        (["{" * 50], None),
        (["[[]" * 49], None),  # One more level each time.
        (["[[]" * 50], 0),
        (["", '{"a": 1}', " ", '{"a":[' * 26 + "]}" * 26], 1),
        (['{"a": "' + "[" * 99 + '"}'], None),
        (['{"a": "\\"' + "[" * 99 + '"}'], None),
        (['{"a": [' + "[]," * 99 + "[]]}"], None),
        (['{"a": [1]}'] * 999, None),
        (['{"a": [1]}'] * 999 + ["[" * 51], 999),
    ],
)
def test_lines_with_too_many_levels(lines, expected):
    for end in ("\n", ""):
        assert json_texts.first_too_deep(("\n".join(lines) + end).encode()) == expected


def test_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": ["x", "y"]}\n{"a": ["z", "\xff"]}\n')
    with pytest.raises(DataError) as error:
        load(str(path))
    assert str(error.value) == (
        rf"{path}: row 2: column 'a' is not UTF-8: b'\xff'. Write the file again in UTF-8"
    )


def test_large_integers_among_fractions_keep_their_digits(tmp_path):
    """Also in lists, and if objects are not on separate lines."""
    text = (
        '\ufeff{"a": 9007199254740993, "b": [1.5, 9007199254740993]} {"a": 1.5, "b": []}\n\n'
        '{"b": null, "s": "x\\ny",\n "a": null}{"c": 1}\n'
    )
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    ((batch, exact),) = json_files.batches_with_digits(str(tmp_path / "a.jsonl"))
    assert batch.column("a").to_pylist() == [2.0**53, 1.5, None, None]
    assert exact.column("a").to_pylist() == ["9007199254740993", "1.5", None, None]
    assert exact.column("b").to_pylist() == [["1.5", "9007199254740993"], [], None, None]
    assert exact.column("s").equals(batch.column("s"))
    (part,) = reader.open_table([str(tmp_path / "a.jsonl")]).parts()
    rounded = Counter()
    (rows,) = reader.read(part, rounded)
    assert rows.batch.column("b").to_pylist()[0] == [1.5, 2.0**53]
    assert rounded == {("a", "digits"): 1, ("b", "digits"): 1}
    # Columns that are kept unchanged are as pyarrow reads them.
    ((_, (kept,)),) = reader.read_beside(part, ["a"])
    assert kept.type == "double"


def test_a_key_that_is_not_utf8(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"\x98": 1}\n')
    with pytest.raises(DataError, match=r"a key in row 1 or below is not UTF-8: .*again in UTF-8"):
        load(str(path))


def test_a_list_in_place_of_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "_BLOCK", 2**16)
    monkeypatch.setattr(json_files, "LONGEST_LINE", 2**20)
    path = write(tmp_path / "a.json", ["[" + '{"a": 1}, ' * 2**17 + "{}]"])
    with pytest.raises(DataError) as error:
        load(path)
    assert str(error.value) == (
        f"{path}: a line is longer than 1 MB; JSON lines have one object on each line, not one "
        "list of objects"
    )
    with pytest.raises(DataError, match=r"row 1: the line changes from object to array; each "):
        load(write(tmp_path / "b.json", ["[1]"]))


def test_no_row(tmp_path):
    assert load(write(tmp_path / "a.jsonl", [])) == ({}, [])
