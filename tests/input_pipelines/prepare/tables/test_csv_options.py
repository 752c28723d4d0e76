"""Options of CSV files that meet: every two of them, and many of them, together.

Each file has the same table, written in another form. Python's csv module reads the same text from
the file without its signature, its comments and its empty lines.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import random

import pytest

from input_pipelines.prepare.tables import csv_files, reader
from input_pipelines.prepare.tables.options import CsvOptions

pytestmark = pytest.mark.no_tensorflow

# How a file can be written and read. The first value of each is the usual one.
FORMS = {
    "signature": (False, True),
    "comment": ("", "#", "//"),
    "comment_at": ("start", "middle", "end"),
    "header": (True, False),
    "quotes": ("needed", "all", "text"),
    "without": ("empty", "NA"),  # How a missing value is written.
    "skip": (None, True, False),
    "space": ("", " ", "   "),  # After each delimiter.
    "delimiter": (",", "\t", ";", "|"),
    "line": ("\n", "\r\n"),
    "last_line": (True, False),
    "blank_lines": (False, True),
    "suffix": (".csv", ".csv.gz"),
    "columns": (3, 1),
    "block": (4 * 2**20, 128),  # The bytes that are read at a time.
}
USUAL = {name: values[0] for name, values in FORMS.items()}

NAMES = ("text", "count", "price")
ROWS = [
    ("plain", 1, 0.5),
    ("a,b;c|d\te", None, 1.25),
    ('she said "no"', -3, None),
    ("two\nlines", 4, 2.0),
    ("two\n# lines\n// more", 5, 3.5),
    ("", 6, -1.5),  # The empty string.
    (None, 7, 1e-3),
    ('"', 8, 4.0),
    (" space", 9, 0.25),
    ("ünïcode", 10, 8.0),
]


def field(value, form, first):
    """A field, and its text for Python's csv module."""
    if value is None:
        text = "" if form["without"] == "empty" else "NA"
        quoted = form["quotes"] == "all"
    else:
        text = value if isinstance(value, str) else repr(value)
        quoted = (
            form["quotes"] == "all"
            or (form["quotes"] == "text" and isinstance(value, str))
            or text.startswith((" ", "#", "//"))
            or not text
            or any(sign in text for sign in '\n"' + form["delimiter"])
        )
    space = "" if first else form["space"]
    return space + ('"' + text.replace('"', '""') + '"' if quoted else text)


def lines_of(form):
    """The lines of a file: of each row, in which values may have line breaks."""
    rows = [row[: form["columns"]] for row in ROWS]
    lines = [
        form["delimiter"].join(field(value, form, i == 0) for i, value in enumerate(row))
        for row in ([NAMES[: form["columns"]]] if form["header"] else []) + rows
    ]
    return [line.replace("\n", form["line"]) for line in lines]


def content_of(form):
    lines = lines_of(form)
    if form["comment"]:
        place = {"start": 0, "middle": len(lines) // 2, "end": len(lines)}[form["comment_at"]]
        comments = [f"{form['comment']} it's a \"comment", form["comment"]]
        lines[place:place] = comments
    if form["blank_lines"]:
        lines = [part for line in lines for part in (line, "")]
    text = form["line"].join(lines) + form["line"] * form["last_line"]
    return b"\xef\xbb\xbf" * form["signature"] + text.encode()


def makes_sense(form):
    """Whether the form is one that the options describe."""
    if form["space"] and form["skip"] is False and form["columns"] > 1:
        return False  # Spaces are part of fields: `count` is text, and quotes do not quote.
    if form["columns"] == 1:
        if form["blank_lines"]:
            return False  # An empty line is a row of the only column.
    return True


def expected_of(form):
    """The rows that a conversion stores."""

    def stored(value, name):
        if value is None:
            # A quoted NA is a word, and two quotes are the empty string, except in numbers.
            if name == "text" and form["quotes"] == "all":
                return b"" if form["without"] == "empty" else b"NA"
            return None
        return value.replace("\n", form["line"]).encode() if isinstance(value, str) else value

    return [
        {name: stored(value, name) for name, value in zip(NAMES[: form["columns"]], row)}
        for row in ROWS
    ]


def check(tmp_path, monkeypatch, form):
    monkeypatch.setattr(csv_files, "_BLOCK", form["block"])
    content = content_of(form)
    path = tmp_path / f"a{form['suffix']}"
    path.write_bytes(gzip.compress(content) if form["suffix"].endswith(".gz") else content)
    options = CsvOptions(
        columns=() if form["header"] else NAMES[: form["columns"]],
        delimiter=form["delimiter"],
        skip_spaces=form["skip"],
        comment=form["comment"],
        missing=("NA",) if form["without"] == "NA" else (),
    )
    table = reader.open_table([str(path)], csv=options)
    assert [(column.name, column.dtype) for column in table.columns] == list(
        zip(NAMES, ("string", "int64", "float32"))
    )[: form["columns"]]
    read = [rows for part in table.parts() for rows in reader.read(part)]
    found = [row for rows in read for row in rows.batch.to_pylist()]
    expected = expected_of(form)
    assert [row.get("text") for row in found] == [row["text"] for row in expected]
    for row, other in zip(found, expected):
        assert row == pytest.approx(other, nan_ok=True)

    # For Python's module, a missing field and an empty string are the same.
    text = form["line"].join(lines_of(form)) + form["line"]
    python = csv.reader(
        io.StringIO(text, newline=""), delimiter=form["delimiter"], skipinitialspace=True
    )
    words = [row[0] if row else "" for row in python][form["header"] :]
    missing = "" if form["without"] == "empty" else "NA"
    assert words == [missing if r["text"] is None else r["text"].decode() for r in found]

    # Messages name the line on which a row begins.
    lines = content.decode().removeprefix("\ufeff").split("\n")
    for i, row in enumerate(ROWS[:3] + ROWS[7:]):
        i = i if i < 3 else i + 4
        place = read[0].where(i) if len(read) == 1 else None
        if place is not None and form["columns"] == 3:
            line = lines[int(place.rpartition(" ")[2]) - 1]
            assert str(row[2] if row[2] is not None else row[1]) in line, (place, line)


def forms_of_pairs():
    for one, other in itertools.combinations(FORMS, 2):
        for values in itertools.product(FORMS[one], FORMS[other]):
            yield {**USUAL, **dict(zip((one, other), values))}


def test_every_two_options_together(tmp_path, monkeypatch):
    seen = []
    for form in forms_of_pairs():
        if makes_sense(form) and form not in seen:
            seen.append(form)
            try:
                check(tmp_path, monkeypatch, form)
            except Exception as error:
                changed = {name: v for name, v in form.items() if v != USUAL[name]}
                raise AssertionError(f"{changed}: {error}") from error
    assert len(seen) > 200


@pytest.mark.parametrize("seed", range(4))
def test_many_options_together(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    for _ in range(50):
        form = {name: draw.choice(values) for name, values in FORMS.items()}
        if makes_sense(form):
            try:
                check(tmp_path, monkeypatch, form)
            except Exception as error:
                raise AssertionError(f"{form}: {error}") from error
