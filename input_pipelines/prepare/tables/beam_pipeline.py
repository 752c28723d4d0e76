"""Reads the files of a table for the first time with Apache Beam instead of threads.

Each element of the pipeline is a file. The result for a file is JSON, a few lines for each column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Optional

import pydantic

from feature_specs.files import documents
from input_pipelines.prepare import beam_runner
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
from input_pipelines.prepare.tables.text_types import Place, TextColumn

_LOOKS: dict[str, Any] = {kind.__name__: pydantic.TypeAdapter(kind) for kind in (CsvLook, JsonLook)}


class _Texts(documents.Part):
    """What is found in a column of a CSV file; see `TextColumn`."""

    counts: dict[str, int]
    first: dict[str, Place]
    broken: int
    multi: bool


class _File(documents.Document):
    """What is found in a file: the columns of CSV, or of JSON lines; see `JsonColumns.set`."""

    sort_keys = False

    rows: int
    texts: Optional[dict[str, _Texts]] = None
    columns: tuple[tuple[Column, str, str], ...] = ()


def looks(flags: Sequence[str]) -> LookAll:
    """A function that reads files on the workers of a pipeline with these Beam flags."""

    def look_all(files: Sequence[Look]) -> list[Found]:
        with beam_runner.scratch(flags) as folder:
            pieces = map(_piece, files)
            results = beam_runner.run(_work, b"", pieces, folder=folder, flags=flags)
            return [_found(_File.of_text(result, "the result for a file")) for result in results]

    return look_all


def _piece(look: Look) -> bytes:
    kind = type(look).__name__
    return kind.encode() + b" " + bytes(_LOOKS[kind].dump_json(look))


def _found(file: _File) -> Found:
    if file.texts is not None:
        texts = {}
        for name, state in file.texts.items():
            column = texts[name] = TextColumn(name)
            column.counts = Counter(state.counts)
            column.first = state.first
            column.broken, column.multi = state.broken, state.multi
        return texts, file.rows
    found = JsonColumns()
    for entry in file.columns:
        found.set(*entry)
    return found, file.rows


# --- On a worker ----------------------------------------------------------------------------------


def _work(common: bytes, piece: bytes) -> bytes:
    """Reads a file and returns what it found."""
    kind, _, content = piece.partition(b" ")
    found, rows = look_through(_LOOKS[kind.decode()].validate_json(content))
    if isinstance(found, dict):
        texts = {
            name: _Texts(
                counts=dict(text.counts), first=text.first, broken=text.broken, multi=text.multi
            )
            for name, text in found.items()
        }
        file = _File(rows=rows, texts=texts)
    else:
        columns = ((column, *found.shown(name)) for name, column in found.found.items())
        file = _File(rows=rows, columns=tuple(columns))
    return file.as_text().encode()
