"""Beam workers find the same table as threads in this process."""

from __future__ import annotations

import json

import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.reader import open_table
from tests.beam import FLAGS, needs_beam

CSV = [
    'a,b,c,d\n1,x,007,2020\n2,,12,"two\nlines"\n',
    "c,a,b,d\n5,1.5,7,?\n9223372036854775808,nan,8,é\n",
    "a,b,c,d\n",
]
JSON = [
    [{"a": 1, "b": [], "c": None}, {"a": 2, "b": ["x"]}],
    [{"a": 1.5, "b": None, "late": "é"}],
    [{"c": None, "b": []}],
]


def written(folder, kind):
    files = []
    for i, content in enumerate(CSV if kind == "csv" else JSON):
        files.append(f"{folder}/{i}.{kind}")
        text = content if kind == "csv" else "".join(json.dumps(row) + "\n" for row in content)
        with open(files[-1], "w", encoding="utf-8") as file:
            file.write(text)
    return files


@needs_beam
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("options", [{}, {"dtypes": {"d": "string"}}, {"only": ["a", "b"]}])
def test_the_same_table(tmp_path, kind, options):
    files = written(tmp_path, kind)
    if kind == "csv":
        options = {**options, "csv": CsvOptions(missing=("?",))}
    here, there = (open_table(files, beam=beam, **options) for beam in (None, FLAGS))
    assert there == here and sum(here.counted.values()) == 4


@needs_beam
def test_the_same_errors(tmp_path):
    files = written(tmp_path, "jsonl")
    with open(files[2], "a") as file:
        file.write('{"a": "text"}\n')
    errors = []
    for beam in (None, FLAGS):
        with pytest.raises(DataError) as error:
            open_table(files, beam=beam)
        errors.append(str(error.value))
    message = (
        f"column 'a' is a number in {files[0]}: row 1 and text in {files[2]}: row 2; a feature "
        "must have one type"
    )
    assert errors == [message, message]
