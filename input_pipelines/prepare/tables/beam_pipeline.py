"""Reads the files of a table for the first time with Apache Beam instead of threads.

Each element of the pipeline is a file. The result for a file is JSON, a few lines for each column.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pydantic

from input_pipelines.prepare.beam import runner
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.found_columns import (
    CsvLook,
    Found,
    JsonLook,
    Look,
    LookAll,
    look_through,
)
from input_pipelines.prepare.tables.json_files import JsonColumns
from input_pipelines.prepare.tables.text_types import TextColumn

_LOOKS: dict[str, Any] = {kind.__name__: pydantic.TypeAdapter(kind) for kind in (CsvLook, JsonLook)}


def looks(flags: Sequence[str]) -> LookAll:
    """A function that reads files on the workers of a pipeline with these Beam flags."""

    def look_all(files: Sequence[Look]) -> list[Found]:
        with runner.scratch(flags) as folder:
            pieces = map(_piece, files)
            results = runner.run(_work, b"", pieces, folder=folder, flags=flags)
            return [_found(json.loads(result)) for result in results]

    return look_all


def _piece(look: Look) -> bytes:
    kind = type(look).__name__
    return kind.encode() + b" " + bytes(_LOOKS[kind].dump_json(look))


def _found(document: dict[str, Any]) -> Found:
    if "texts" in document:
        texts = {}
        for name, state in document["texts"].items():
            column = texts[name] = TextColumn(name)
            column.counts = Counter(state["counts"])
            column.first = {kind: (p, row, text) for kind, (p, row, text) in state["first"].items()}
            column.broken = state["broken"]
            column.multi = state["multi"]
        return texts, document["rows"]
    found = JsonColumns()
    for column, kind, place in document["columns"]:
        found.set(Column(**column), kind, place)
    return found, document["rows"]


# --- On a worker ----------------------------------------------------------------------------------


def _work(common: bytes, piece: bytes, attempt: str) -> bytes:
    """Reads a file and returns what it found. It writes nothing, so it does not use `attempt`."""
    kind, _, content = piece.partition(b" ")
    found, rows = look_through(_LOOKS[kind.decode()].validate_json(content))
    document: dict[str, Any] = {"rows": rows}
    if isinstance(found, dict):
        document["texts"] = {
            name: {
                "counts": text.counts,
                "first": text.first,
                "broken": text.broken,
                "multi": text.multi,
            }
            for name, text in found.items()
        }
    else:
        document["columns"] = [
            (dataclasses.asdict(column), *found.shown(name)) for name, column in found.found.items()
        ]
    return json.dumps(document).encode()
