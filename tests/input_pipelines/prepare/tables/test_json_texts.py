"""JSON lines: values that are kept are the text of the file, whatever else is in their block."""

from __future__ import annotations

import json
import random

import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import json_files, json_texts, reader

pytestmark = pytest.mark.no_tensorflow


def texts(lines, names):
    """The kept texts of each line, as lists."""
    lines = list(lines)
    block = "".join(f"{line}\n" for line in lines).encode()
    batch = json_texts.batch(block, names, "a.jsonl", 0, len(lines))
    return [list(row) for row in zip(*(column.to_pylist() for column in batch.columns))]


def test_the_text_of_each_value():
    lines = [
        '{"a":9007199254740993,"b":1.50}',
        '{ "b" : null , "a" : -0 }',
        "{}",
        '{"a":[1,{"b":"}]"},null],"c":{"b":2,"a":[ ]},"b":"\\u00e4\\"\\\\"}',
        '\t{"c":"a\\":1,","\\u0061":1e5,"b":true}  ',
        '{"a": NaN, "b": {}}',
    ]
    assert texts(lines, ["b", "a"]) == [
        ["1.50", "9007199254740993"],
        ["null", "-0"],
        [None, None],
        ['"\\u00e4\\"\\\\"', '[1,{"b":"}]"},null]'],
        ["true", "1e5"],
        ["{}", "NaN"],
    ]


def test_names_with_escapes_and_a_mark_at_the_start():
    names = ["ä b", 'q"', "tab\t"]
    lines = ["\ufeff" + json.dumps(dict(zip(names, "xyz")))]
    assert texts(lines, names) == [['"x"', '"y"', '"z"']]
    assert texts([json.dumps(dict(zip(names, "xyz")), ensure_ascii=False)], names) == [
        ['"x"', '"y"', '"z"']
    ]


def test_several_objects_on_a_line_and_an_object_on_several_lines():
    block = b'{"a": 1}{"a": [2,\n\t3]} {"b": 1,\r\n "a": 4\n}\n\n'
    assert json_texts.batch(block, ["a"], "a.jsonl", 0, 3).column("a").to_pylist() == [
        "1", "[2,  3]", "4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "block", ["{", '{"a"}', '{"a":}', '{"a":[1}', '{"a":1', "[1]", '{"a":1 2}']
)
def test_other_text_is_an_error(block):
    message = r"^a.jsonl: row 6: expected one object, got other text\. Check whether each line "
    with pytest.raises(DataError, match=message):
        json_texts.batch(b'{"a": 1}\n' + block.encode(), ["a"], "a.jsonl", 4, 2)
    with pytest.raises(DataError, match=r"^a.jsonl: got 1 objects after row 4, expected 2\. Check"):
        json_texts.batch(b'{"a": 1}\n', ["a"], "a.jsonl", 4, 2)


def test_text_that_is_not_utf8_names_its_row():
    with pytest.raises(DataError) as error:
        json_texts.batch(b'{"a": 1}\n{"a": "\xff", "b": 1}\n', ["a"], "a.jsonl", 4, 2)
    assert str(error.value) == (
        "a.jsonl: row 6: column 'a' is not UTF-8: b'\"\\xff\"'. Write the file again in UTF-8"
    )


def random_value(rng, depth=0):
    kind = rng.randrange(5 if depth == 3 else 7)
    if kind < 5:
        text = "".join(rng.choices('a"\\\n,:{}[]ä \u2028\x00', k=rng.randrange(6)))
        return [None, rng.random() < 0.5, rng.randrange(-(2**63), 2**63), rng.gauss(0, 1e9), text][
            kind
        ]
    values = [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return values if kind == 5 else dict(zip('a"', values))


@pytest.mark.parametrize("separators", [None, (",", ":"), (" , ", " : ")])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_any_value_is_the_text_that_was_written(separators, ascii_only):
    def dumps(value):
        return json.dumps(value, ensure_ascii=ascii_only, separators=separators)

    rng, names = random.Random(7), ["c", 'a"', "ä", "b\\"]
    rows = [
        {n: random_value(rng) for n in rng.sample([*names, "x"], rng.randrange(6))}
        for _ in range(300)
    ]
    expected = [[dumps(row[n]) if n in row else None for n in names] for row in rows]
    assert texts(map(dumps, rows), names) == expected


@pytest.mark.parametrize("block", [1, 4 * 2**20])
def test_a_reader_that_keeps_columns_knows_no_block(tmp_path, monkeypatch, block):
    """A fraction in a block makes its integers floats, a key in a block makes nulls of others."""
    monkeypatch.setattr(json_files, "_BLOCK", block)
    lines = ['{"id": 9007199254740993, "o": {"a": 1}}', '{"id": 9007199254740992, "x": 1}',
             '{"id": 0.5, "o": {"b": null}}', '{"id": null}']  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    (part,) = reader.open_table([str(path)], only=["x"]).parts()
    read = list(reader.read_beside(part, ["id", "o"], as_text=True))
    assert [text for _, (ids, _) in read for text in ids.to_pylist()] == [
        "9007199254740993", "9007199254740992", "0.5", "null",
    ]  # fmt: skip
    assert [text for _, (_, objects) in read for text in objects.to_pylist()] == [
        '{"a": 1}', None, '{"b": null}', None,
    ]  # fmt: skip
    assert [x for rows, _ in read for x in rows.batch.column("x").to_pylist()] == [
        None, 1, None, None,
    ]  # fmt: skip
