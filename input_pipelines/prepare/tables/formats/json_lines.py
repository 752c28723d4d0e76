"""JSON lines: the types of columns are found by reading all files once before the rows.

pyarrow infers types from each block of a file (`json_files`). Here they become the types of whole
columns: a number is float32 if any number of the column is, and an empty list may be of any values.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import pydantic

from feature_specs.files.documents import plain
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import json_files
from input_pipelines.prepare.tables.columns import Column, NoFeature, column_of, is_list, is_text
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.table_format import (
    NO_TEXT,
    ColumnRequest,
    Part,
    PredictedRows,
    TableColumns,
    TableFormat,
    Writer,
)

_LIST = "a list"


class JsonLines(TableFormat):
    """The format; see `TableFormat`."""

    def columns(self, files: Sequence[str], request: ColumnRequest) -> TableColumns:
        only = None if request.only is None else tuple(sorted(request.only))
        pieces = (_FILE.dump_json((path, only)) for path in files)
        results = [_FOUND.validate_json(each) for each in request.read_all(_read_file, pieces)]
        columns, _ = results[0]
        for others, _ in results[1:]:
            for other in others.values():
                _add(columns, other)
        rows = {path: count for path, (_, count) in zip(files, results)}
        return TableColumns([each.column for each in columns.values()], rows)

    def batches(
        self, part: Part, size: int, names: Sequence[str], texts: Optional[Sequence[str]]
    ) -> Iterator[tuple[Any, Any]]:
        return json_files.batches_with_digits(part.path, texts)

    def kept_value(self, text: Any) -> Any:
        try:
            return None if text is None else json.loads(text)
        except ValueError:
            return float("inf")  # pyarrow accepts `Inf`, which is not JSON.

    def writer(self, *args: Any) -> Writer:
        return _Predictions(*args)


# --- The first reading ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Column:
    """What is found in a column.

    Attributes:
      column: the column.
      kind, place: the kind of its values, and the first row of that kind. Empty if the column has
        only null, or if its type does not matter.
    """

    column: Column
    kind: str = ""
    place: str = ""


# A file to read, and the columns whose types matter; None for all.
_FILE: pydantic.TypeAdapter[tuple[str, Optional[tuple[str, ...]]]] = pydantic.TypeAdapter(
    tuple[str, Optional[tuple[str, ...]]]
)

# What a worker finds in a file: its columns and its number of rows.
_FOUND = pydantic.TypeAdapter(tuple[dict[str, _Column], int])


def _read_file(common: bytes, piece: bytes) -> bytes:
    """Reads a file once, from its start to its end.

    Raises:
      DataError: a feature cannot store a column, or a column has values of two kinds.
    """
    path, only = _FILE.validate_json(piece)
    columns: dict[str, _Column] = {}
    before = 0
    for batch in json_files.batches(path):
        for field, array in zip(batch.schema, batch.columns):
            if only is not None and field.name not in only:
                columns.setdefault(field.name, _Column(Column(field.name, None)))
                continue
            place = f"{path}: row {_row(array, before)}"
            try:
                column = column_of(field.name, field.type)
            except NoFeature as error:
                raise DataError(f"{place}: {error}") from error
            _add(columns, _Column(column, _kind(field.type), place))
        before += batch.num_rows
    return _FOUND.dump_json((columns, before))


def _add(columns: dict[str, _Column], new: _Column) -> None:
    """Adds what is found in later rows."""
    name = new.column.name
    old = columns.setdefault(name, new)
    if not new.kind:
        return
    if old.column.dtype is None or (old.kind == _LIST and new.kind.startswith(_LIST)):
        columns[name] = new
    elif new.kind == _LIST and old.kind.startswith(_LIST):
        pass
    elif new.kind != old.kind:
        raise DataError(
            f"column {name!r} is {old.kind} in {old.place} and {new.kind} in {new.place}; a "
            "feature must have one type"
        )
    elif new.column.dtype == "float32":
        columns[name] = dataclasses.replace(old, column=new.column)


def _kind(dtype: Any) -> str:
    """The kind of a JSON value; empty for null. Integers and other numbers are one kind."""
    types = arrow().types
    if types.is_null(dtype):
        return ""
    if is_list(dtype):
        inner = _kind(dtype.value_type)
        return f"{_LIST} of {inner}" if inner else _LIST
    if types.is_boolean(dtype):
        return "true or false"
    return "text" if is_text(dtype) else "a number"


def _row(array: Any, before: int) -> int:
    """The row, from 1, of the first value that is not null."""
    valid = np.flatnonzero(np.asarray(array.is_valid()))
    return before + 1 + (int(valid[0]) if len(valid) else 0)


# --- Predictions ----------------------------------------------------------------------------------


class _Predictions(Writer):
    """Writes predictions: one object for each row. Kept values have the text of the input."""

    def write(self, answers: Mapping[str, np.ndarray], batch: PredictedRows) -> None:
        names = [json.dumps(name, ensure_ascii=False) for name in self._keep]
        columns = [column.to_pylist() for column in batch.kept]
        lines = []
        for i in range(len(batch.records)):
            try:
                row = {name: json_value(values[i]) for name, values in answers.items()}
            except UnicodeDecodeError as error:
                raise DataError(f"{batch.where(i)}: an output {NO_TEXT}") from error
            members = [
                f"{name}: {texts[i]}" for name, texts in zip(names, columns) if texts[i] is not None
            ]
            members.append(json.dumps(row, ensure_ascii=False)[1:-1])
            lines.append("{" + ", ".join(members) + "}\n")
        self._file.write("".join(lines).encode(), 0)


def json_value(value: Any) -> Any:
    """A number or string for one value, a list for several values and for a Python list."""
    values = [v.decode() if isinstance(v, bytes) else v for v in output_values(value)]
    return plain(values[0] if len(values) == 1 and not isinstance(value, list) else values)


def output_values(value: Any) -> list[Any]:
    """The values of an output of a row, in one list."""
    # NumPy would drop zero bytes at the end of a value of bytes.
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, bytes) else list(np.asarray(value).ravel().tolist())


FORMAT = JsonLines()
