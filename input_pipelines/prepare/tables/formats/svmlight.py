"""svmlight: `2 qid:10 1:0.3 2:NULL # comment`, also the form of LETOR and libsvm.

    label           the first number of a line
    qid             the query of the line, if the lines have one
    f1, f2, ...     the numbered values; also f0 if a line has it

A number that a line does not have is 0: that is what svmlight means by it. `NULL` is a missing
value, as in the files of LETOR. What follows a `#` is a comment. All lines have a qid, or none. The
columns go up to the largest number in any file, or in the spec.

Lines become columns of text in blocks, with the operations of pyarrow, and `text_types` decides the
types of columns as in CSV. Predictions are CSV files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Optional

import pydantic

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import svmlight_lines
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.formats import csv
from input_pipelines.prepare.tables.svmlight_lines import LABEL, QUERY
from input_pipelines.prepare.tables.table_format import (
    ColumnRequest,
    Output,
    Part,
    TableColumns,
    TableFormat,
    Writer,
)
from input_pipelines.prepare.tables.text_types import Cells, TextColumn


class Svmlight(TableFormat):
    """The format; see `TableFormat`."""

    output_suffix = ".csv"

    def columns(self, files: Sequence[str], request: ColumnRequest) -> TableColumns:
        pieces = (_PATH.dump_json(path) for path in files)
        results = [_FOUND.validate_json(each) for each in request.read_all(_read_file, pieces)]
        merged: dict[str, TextColumn] = {}
        for path, (columns, _) in zip(files, results):
            if (QUERY in columns) != (QUERY in results[0][0]):
                raise DataError(
                    f"{path} {'has' if QUERY in columns else 'lacks'} a qid, unlike {files[0]}; "
                    "all files of a table must have it, or none"
                )
            for name, column in columns.items():
                if name in merged:
                    merged[name].merge(column)
                else:
                    merged[name] = column
        dtypes = request.dtypes or {}
        typed = []
        for name in _all_names({*merged, *filter(svmlight_lines.number_of, dtypes)}):
            dtype = _dtype(merged.get(name), name, dtypes.get(name), request.correct)
            typed.append(Column(name, dtype))
        return TableColumns(typed, {path: rows for path, (_, rows) in zip(files, results)})

    def batches(
        self, part: Part, size: int, names: Sequence[str], texts: Optional[Sequence[str]]
    ) -> Iterator[tuple[Any, Any]]:
        wanted = list(dict.fromkeys([*(column.name for column in part.columns), *names]))
        for lines in svmlight_lines.read(part.path):
            for block in svmlight_lines.split(lines, len(wanted)):
                batch = svmlight_lines.dense(svmlight_lines.parsed(block, part.path), wanted)
                yield batch, batch

    def where(self, part: Part, row: int) -> str:
        return svmlight_lines.where(part.path, row)

    def output_columns(self, output: Output) -> list[str]:
        return csv.FORMAT.output_columns(output)

    def writer(self, *args: Any) -> Writer:
        return csv.FORMAT.writer(*args)


# --- The first reading ----------------------------------------------------------------------------

_PATH = pydantic.TypeAdapter(str)

# What a worker finds in a file: its columns and its number of rows.
_FOUND = pydantic.TypeAdapter(tuple[dict[str, TextColumn], int])


def _read_file(common: bytes, piece: bytes) -> bytes:
    """Reads a file once, from its start to its end."""
    path = _PATH.validate_json(piece)
    columns: dict[str, TextColumn] = {}
    before = 0
    for lines in svmlight_lines.read(path):
        block = svmlight_lines.parsed(lines, path)
        found = {LABEL: (block.labels, None), **svmlight_lines.numbered(block)}
        if block.queries is not None:
            found[QUERY] = (block.queries, None)
        if before and (QUERY in columns) != (QUERY in found):
            raise svmlight_lines.some_queries(path, lines.numbers[0], QUERY in found)
        for name, (values, rows) in found.items():
            column = columns.setdefault(name, TextColumn(name))
            column.add(Cells(values, path, before, rows))
        before += len(lines.texts)
    if not before:
        raise DataError(f"{path}: it has no line with values, such as 1 1:0.5 2:3")
    return _FOUND.dump_json((columns, before))


def _all_names(found: set[str]) -> list[str]:
    """`label`, `qid` if lines have it, and all columns from f1 (or f0) to the largest number."""
    numbers = [n for n in map(svmlight_lines.number_of, found) if n is not None]
    first = 0 if 0 in numbers else 1
    named = [name for name in (LABEL, QUERY) if name in found]
    return named + [f"f{i}" for i in range(first, max(numbers, default=0) + 1)]


def _dtype(
    column: Optional[TextColumn], name: str, declared: Optional[str], correct: str
) -> Optional[str]:
    """The type of a column of text; None if no line has a value.

    Raises:
      DataError: a value is not a number, or not of the type in the spec.
    """
    if column is None:
        return declared or "int64"  # No line has it, so it is 0 in all of them.
    kinds = column.counts
    if name == QUERY:
        only_integers = not {*filter(None, (k for k in kinds if kinds[k]))} - {"whole"}
        return declared or ("int64" if only_integers else "string")
    for kind, (path, row, text) in column.first.items():
        expected = "a number" if name == LABEL else "a number or NULL"
        if kind == "fraction" and declared == "int64":
            expected = f"int64, as the spec says; {correct}"
        elif kind in ("whole", "fraction", "odd"):
            continue
        hint = svmlight_lines.not_svmlight(path) if name == LABEL else ""
        raise DataError(
            f"{svmlight_lines.where(path, row)}: {name}: got {text!r}, expected {expected}{hint}"
        )
    if declared is not None:
        return declared
    if kinds["fraction"] or kinds["odd"]:
        return "float32"
    return "int64" if kinds["whole"] else None


FORMAT = Svmlight()
