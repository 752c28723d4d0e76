"""Finds the names and types of the columns in all files of one table.

Parquet files declare them. CSV and JSON lines are read completely, several files at a time, so that
a column's type fits all its values. Files that do not fit together are errors.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Optional, Union

from input_pipelines.errors import DataError, cores
from input_pipelines.prepare.tables import (
    csv_files,
    csv_lists,
    json_files,
    parquet_files,
    row_places,
)
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.json_files import JsonColumns
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.row_places import CsvRows
from input_pipelines.prepare.tables.text_types import Cells, TextColumn


def check_names(first: str, names: Sequence[str], path: str, others: Sequence[str]) -> None:
    """Raises DataError unless two files have the same columns."""
    lacks = [name for name in names if name not in others]
    has = [name for name in others if name not in names]
    if lacks or has:
        changes = [f"lacks {', '.join(map(repr, lacks))}"] if lacks else []
        changes += [f"has {', '.join(map(repr, has))}"] if has else []
        raise DataError(
            f"{path} {' and '.join(changes)}, unlike {first}; all files of a table must have the "
            "same columns"
        )


def of_parquet(
    files: Sequence[str],
    only: Optional[Collection[str]] = None,
    dtypes: Mapping[str, str] = MappingProxyType({}),
) -> list[Column]:
    """The columns of Parquet files. With `only`, the types of other columns are not checked.

    Integers are float32 if `dtypes` says so. Some files may then have integers, others fractions.
    """
    found: dict[str, Column] = {}
    places: dict[str, str] = {}
    for path in files:
        columns = {c.name: as_declared(c, dtypes) for c in parquet_files.columns(path, only)}
        if found:
            check_names(files[0], list(found), path, list(columns))
        for name, column in columns.items():
            known = found.get(name)
            if known is None or known.dtype is None:
                found[name], places[name] = column, path
            elif column.dtype is not None and _type(column) != _type(known):
                raise DataError(
                    f"column {name!r} is {_type(known)} in {places[name]} and {_type(column)} in "
                    f"{path}; a feature must have one type"
                )
    return list(found.values())


def as_declared(column: Column, dtypes: Mapping[str, str]) -> Column:
    """The column as float32, if it has integers and `dtypes` says float32."""
    if column.dtype == "int64" and dtypes.get(column.name) == "float32":
        return dataclasses.replace(column, dtype="float32")
    return column


def _type(column: Column) -> str:
    values = column.form or str(column.dtype)
    return f"lists of {values}" if column.multi else values


@dataclasses.dataclass(frozen=True)
class CsvLook:
    """A CSV file to read: `names` are its columns, `declared` the columns that the spec says are
    text.
    """

    path: str
    csv: CsvOptions
    names: tuple[str, ...]
    declared: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class JsonLook:
    """A file of JSON lines to read. The types of columns that are not in `only` do not matter."""

    path: str
    only: Optional[tuple[str, ...]]


Look = Union[CsvLook, JsonLook]

# What is found in one file: its columns and its number of rows.
Found = tuple[Union[dict[str, TextColumn], JsonColumns], int]

# Reads some files completely, and returns what it found, in their order.
LookAll = Callable[[Sequence[Look]], list[Found]]


def look_through(look: Look) -> Found:
    """Reads a whole file once."""
    row = 0
    if isinstance(look, CsvLook):
        texts = {name: TextColumn(name) for name in look.names}
        for batch in csv_files.batches(look.path, look.csv, look.names):
            for name, values in zip(batch.schema.names, batch.columns):
                cells = Cells(values, look.path, row)
                if name not in look.declared:
                    cells = texts[name].without_missing(cells, look.csv.missing)
                cells = _values(look, texts[name], cells)
                if name not in look.declared:
                    texts[name].add(cells)
            row += batch.num_rows
        return texts, row
    found = JsonColumns()
    for batch in json_files.batches(look.path):
        found.add(batch, look.path, row, look.only)
        row += batch.num_rows
    return found, row


def _values(look: CsvLook, column: TextColumn, cells: Cells) -> Cells:
    """The values of fields, which may be lists."""
    separator = look.csv.list_separator
    if not separator:
        return cells
    places = CsvRows(look.csv, empty_rows=len(look.names) == 1)
    column.multi |= csv_lists.has_lists(cells.values, separator)
    return csv_lists.cells(
        cells,
        separator,
        lambda i: row_places.name(cells.path, cells.before + i + 1, places),
        column.name,
    )


def of_csv(
    files: Sequence[str],
    csv: CsvOptions,
    names: Mapping[str, tuple[str, ...]],
    dtypes: Mapping[str, str],
    look_all: LookAll,
    correct: str = "correct the spec",
    lists: Collection[str] = (),
) -> tuple[list[Column], dict[str, int]]:
    """The columns of CSV files, and the number of rows of each file.

    A column has the type in `dtypes`, or the type that fits all its fields. `correct` is the remedy
    in errors about `dtypes`. With a separator of lists, the columns in `lists` have lists, and all
    other columns with the separator in a field.
    """
    declared = tuple(name for name, dtype in dtypes.items() if dtype == "string")
    found = look_all([CsvLook(path, csv, names[path], declared) for path in files])
    first, *others = (columns for columns, _ in found)
    assert isinstance(first, dict)
    for other in others:
        assert isinstance(other, dict)
        for name, column in first.items():
            column.merge(other[name])

    def where(path: str, row: int) -> str:
        return row_places.name(path, row, CsvRows(csv, empty_rows=len(names[path]) == 1))

    columns = []
    for name, column in first.items():
        column.multi |= bool(csv.list_separator) and name in lists
        dtype, note = column.dtype(dtypes.get(name), where, correct)
        columns.append(Column(name, dtype, column.multi, note))
    return columns, {path: rows for path, (_, rows) in zip(files, found)}


def of_json_lines(
    files: Sequence[str], only: Optional[Collection[str]], look_all: LookAll
) -> tuple[list[Column], dict[str, int]]:
    """The columns of JSON lines, as in `of_parquet`, and the number of rows of each file."""
    needed = None if only is None else tuple(sorted(only))
    found = look_all([JsonLook(path, needed) for path in files])
    first, *others = (columns for columns, _ in found)
    assert isinstance(first, JsonColumns)
    for other in others:
        assert isinstance(other, JsonColumns)
        first.merge(other)
    return list(first.found.values()), {path: rows for path, (_, rows) in zip(files, found)}


def in_threads(looks: Sequence[Look]) -> list[Found]:
    """Reads several files at the same time. pyarrow releases the interpreter's lock."""
    with concurrent.futures.ThreadPoolExecutor(min(cores(), len(looks))) as pool:
        waiting = [pool.submit(look_through, look) for look in looks]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
