"""Typed JSON files: an error for a damaged one names it, and what is not JSON is null."""

from __future__ import annotations

import os
from typing import Optional

import pytest

from feature_specs.errors import ConfigError
from feature_specs.files import documents

pytestmark = pytest.mark.no_tensorflow


class Kept(documents.Document):
    step: int
    names: Optional[dict[str, list[str]]] = None
    score: Optional[float] = None


def test_a_file_has_the_fields_that_were_given_and_keeps_those_of_a_later_version(tmp_path):
    path = f"{tmp_path}/new/kept.json"
    Kept(step=1, score=float("nan")).save(path)
    with open(path, encoding="utf-8") as file:
        assert file.read() == '{\n  "score": null,\n  "step": 1\n}\n'
    Kept.of_text('{"step": 1, "also": [2]}', path).save(path)
    with open(path, encoding="utf-8") as file:
        assert file.read() == '{\n  "also": [\n    2\n  ],\n  "step": 1\n}\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, ": not JSON: recursion limit exceeded at line 1 column "),
        ("", ": not JSON: EOF while parsing a value at line 1 column 0. Repair or remove it."),
        ("\xff", ": not JSON: "),
        ("null", ": the top level: got None, expected an object. Repair or remove it."),
        ('{"step": true}', ": step: got True, expected a valid integer. Repair or "),
        ('{"names": {}}', ": step is missing. Repair or remove it."),
        ('{"step": 1, "names": {"a": [1]}}', ": names.a[0]: got 1, expected a valid string. "),
    ],
)
def test_a_file_of_another_form_is_named(tmp_path, text, problem):
    path = tmp_path / "kept.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError) as error:
        Kept.load(str(path))
    assert str(error.value).startswith(f"{path}{problem}")


def test_lines_of_another_form_are_named(tmp_path):
    path = tmp_path / "kept.jsonl"
    assert documents.load_lines(str(path), Kept) == []
    documents.save_lines(str(path), [Kept(step=1), Kept(step=2)])
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    assert documents.load_lines(str(path), Kept) == [Kept(step=1), Kept(step=2)]
    for damaged in (b"{", b"\xdd", b'{"step": "\xdd"}', b'{"step": 1.5}', b""):
        path.write_bytes(b'{"step": 1}\n' + damaged + b'\n{"step": 2}\n')
        with pytest.raises(ConfigError) as error:
            documents.load_lines(str(path), Kept)
        assert str(error.value).startswith(f"{path}:2: ")
        assert str(error.value).endswith(". Repair or remove the line.")


def test_a_folder_in_the_place_of_a_file(tmp_path):
    assert Kept.load(f"{tmp_path}/none.json") is None
    (tmp_path / "kept.json").mkdir()
    for ask in (Kept.load, Kept(step=1).save):
        with pytest.raises(ConfigError) as error:
            ask(f"{tmp_path}/kept.json")
        assert str(error.value) == (
            f"{tmp_path}/kept.json is a folder, expected a file. Move it away."
        )
    assert os.listdir(tmp_path) == ["kept.json"]
