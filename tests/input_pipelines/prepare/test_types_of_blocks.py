"""No output inherits types from a block: how a file is cut into blocks changes no byte of it."""

from __future__ import annotations

import ast

import pytest

from input_pipelines.prepare.analyze import first_spec
from input_pipelines.prepare.convert import conversion, sequences
from input_pipelines.prepare.convert.options import ConvertOptions, DerivedLabel, SequenceOptions
from input_pipelines.prepare.tables import json_files
from tests.conftest import ROOT

# In blocks of one line, each of these has another type, is missing, or is null in some blocks.
ROWS = [
    '{"user": "a", "at": 9007199254740993, "price": 0.1000000000000000055, "n": true, "click": 1}',
    '{"user": "b", "at": 9007199254740992, "price": 9007199254740993, "tags": []}',
    '{"user": "a", "at": 9007199254740992, "price": 3, "n": null, "tags": ["x"], "click": 0}',
    '{"user": "b", "at": 1, "price": 1e-7, "n": true, "day": "2026-01-01", "click": 1}',
    '{"user": "b", "at": 2, "price": 5, "none": null, "n": false, "day": "later", "tags": null}',
]
LABELS = (
    DerivedLabel.parse("dear=price:above:0.1"),
    DerivedLabel.parse("large=price:equals:9007199254740993"),
)


def convert(paths, out):
    conversion.convert(paths, directory=out, options=ConvertOptions(derived_labels=LABELS))


def convert_sequences(paths, out):
    how = SequenceOptions("user", "at", ("price",))
    sequences.convert(paths, directory=out, options=ConvertOptions(sequences=how))


def split_by_time(paths, out):
    options = ConvertOptions(split_time="at", eval_fraction=0.2)
    conversion.convert(paths, directory=out, options=options)


def analyze(paths, out):
    first_spec.write(paths, labels=["click"], directory=out, min_count=1)


@pytest.mark.parametrize("write", [convert, convert_sequences, split_by_time, analyze])
def test_blocks_change_no_byte(tmp_path, monkeypatch, write):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(ROWS) + "\n", encoding="utf-8")
    found = []
    for block in (1, 4 * 2**20):
        monkeypatch.setattr(json_files, "_BLOCK", block)
        out = tmp_path / str(block)
        write([str(path)], str(out))
        found.append({p.name: p.read_bytes() for p in out.rglob("*") if p.is_file()})
    assert found[0] == found[1] and len(found[0]) >= 3


def test_labels_compare_fractions_as_float64_in_every_block(tmp_path, monkeypatch):
    """A large integer in the block is read as text; the fraction before it stays a float64."""
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(ROWS[:2]) + "\n", encoding="utf-8")
    ((batch, exact),) = json_files.batches_with_digits(str(path))
    assert batch.column("price").type == "double"
    assert exact.column("price").to_pylist() == ["0.1", "9007199254740993"]


def test_only_these_modules_see_the_types_of_a_block():
    """`reader` gives the types of whole tables. What else sees blocks is tested here."""
    readers, sees_blocks = set(), set()
    for folder in ("estimator_kit", "input_pipelines"):
        for path in (ROOT / folder).rglob("*.py"):
            name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
            if "json_files" not in text and "read_beside" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and node.module == (
                    "input_pipelines.prepare.tables"
                ):
                    if any(alias.name == "json_files" for alias in node.names):
                        readers.add(name)
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "reader.read_beside":
                    if not any(word.arg == "as_text" for word in node.keywords):
                        sees_blocks.add(name)
    tables = "input_pipelines/prepare/tables"
    assert readers == {f"{tables}/formats/json_lines.py"}
    assert sees_blocks == {"input_pipelines/prepare/convert/histories_and_windows.py"}
