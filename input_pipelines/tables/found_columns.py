"""The columns of the files of one table, taken together: which there are, and of what types.

Parquet says it itself; CSV and JSON lines are read through, several files at a time, so that a
column's type is that of all its values. Files that do not fit together are errors.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Optional

from input_pipelines.cores import cores
from input_pipelines.errors import DataError
from input_pipelines.tables import csv_files, json_files, parquet_files
from input_pipelines.tables.columns import Column
from input_pipelines.tables.json_files import JsonColumns
from input_pipelines.tables.options import CsvOptions
from input_pipelines.tables.text_types import TextColumn


def check_names(first: str, names: Sequence[str], path: str, others: Sequence[str]) -> None:
    """Raises DataError unless two files have the same columns."""
    lacks = [name for name in names if name not in others]
    has = [name for name in others if name not in names]
    if lacks or has:
        changes = [f"lacks {', '.join(map(repr, lacks))}"] if lacks else []
        changes += [f"has {', '.join(map(repr, has))}"] if has else []
        raise DataError(
            f"{path} {' and '.join(changes)}, unlike {first}; the files of a table have the same "
            "columns"
        )


def of_parquet(files: Sequence[str], only: Optional[Collection[str]] = None) -> list[Column]:
    """The columns of Parquet files; with `only`, the types of others are not looked at."""
    found: dict[str, Column] = {}
    places: dict[str, str] = {}
    for path in files:
        columns = {column.name: column for column in parquet_files.columns(path, only)}
        if found:
            check_names(files[0], list(found), path, list(columns))
        for name, column in columns.items():
            known = found.get(name)
            if known is None or known.dtype is None:
                found[name], places[name] = column, path
            elif column.dtype is not None and (column.dtype, column.multi) != (
                known.dtype, known.multi
            ):  # fmt: skip
                raise DataError(
                    f"column {name!r} is {_type(known)} in {places[name]} and {_type(column)} in "
                    f"{path}; a feature has one type"
                )
    return list(found.values())


def _type(column: Column) -> str:
    return f"lists of {column.dtype}" if column.multi else str(column.dtype)


def of_csv(
    files: Sequence[str],
    csv: CsvOptions,
    names: Mapping[str, tuple[str, ...]],
    dtypes: Mapping[str, str],
) -> tuple[list[Column], dict[str, int]]:
    """The columns of CSV files, of the types `dtypes` or of those that all their fields have.

    And the number of rows of each file.
    """
    rows: dict[str, int] = {}

    def look(path: str) -> dict[str, TextColumn]:
        found = {name: TextColumn(name) for name in names[path]}
        row = 0
        for batch in csv_files.batches(path, csv, names[path]):
            for name, column in zip(batch.schema.names, batch.columns):
                if dtypes.get(name) != "string":
                    found[name].add(column, path, row)
            row += batch.num_rows
        rows[path] = row
        return found

    first, *others = _in_threads(look, files)
    for other in others:
        for name, column in first.items():
            column.merge(other[name])
    columns = [
        Column(name, dtype, note=note)
        for name, (dtype, note) in ((n, c.dtype(dtypes.get(n))) for n, c in first.items())
    ]
    return columns, rows


def of_json_lines(
    files: Sequence[str], only: Optional[Collection[str]] = None
) -> tuple[list[Column], dict[str, int]]:
    """The columns of JSON lines, as `of_parquet` does, and the number of rows of each file."""
    rows: dict[str, int] = {}

    def look(path: str) -> JsonColumns:
        found = JsonColumns()
        row = 0
        for batch in json_files.batches(path):
            found.add(batch, path, row, only)
            row += batch.num_rows
        rows[path] = row
        return found

    first, *others = _in_threads(look, files)
    for other in others:
        first.merge(other)
    return list(first.found.values()), rows


def _in_threads(look: Any, files: Sequence[str]) -> list[Any]:
    """What a function finds in each file; pyarrow leaves the interpreter to other threads."""
    with concurrent.futures.ThreadPoolExecutor(min(cores(), len(files))) as pool:
        waiting = [pool.submit(look, path) for path in files]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
