"""CSV: fields of text. The types of columns are found by reading all files once before the rows.

With --csv_list_separator=|, the field `action|drama` is a list of two values. A column has lists if
any of its fields has the separator. Its other fields are lists with one value, a missing field is a
missing list, and two quotes with nothing between them are an empty list. An empty value between
separators is an error. Never changes the values themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import pydantic

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import csv_files, csv_lines, text_types
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.csv_lines import CsvRows
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.table_format import (
    ArrowWriter,
    ColumnRequest,
    Output,
    Part,
    PredictedRows,
    TableColumns,
    TableFormat,
    check_names,
    flat,
    output_array,
)
from input_pipelines.prepare.tables.text_types import Cells, TextColumn


class Csv(TableFormat):
    """The format; see `TableFormat`."""

    def columns(self, files: Sequence[str], request: ColumnRequest) -> TableColumns:
        csv, spaced = _spaces_decided(files, request.csv)
        names = {path: csv_files.names(path, csv) for path in files}
        if spaced and request.dtypes is not None:
            raise DataError(_undecided(spaced, names))
        for path in files:
            check_names(files[0], names[files[0]], path, names[path])
        columns, rows, csv, commas = _columns(files, csv, names, request)
        notes = tuple(
            f"{_all_spaced(path, fields, names)}, so spaces at the start of fields are ignored, "
            "which a spec must say (tables: {csv_skip_spaces: true}); use --nocsv_skip_spaces to "
            "keep them"
            for path, fields in spaced.items()
        )
        return TableColumns(columns, rows, csv, names, (*notes, *commas))

    def batches(
        self, part: Part, size: int, names: Sequence[str], texts: Optional[Sequence[str]]
    ) -> Iterator[tuple[Any, Any]]:
        for batch in csv_files.batches(part.path, part.csv, part.names):
            fields = _with_missing(batch, part.columns, part.csv)
            if part.csv.thousands:
                fields = _without_commas(fields, part.columns)
            yield fields, _with_lists(fields, part.columns, part.csv)

    def where(self, part: Part, row: int) -> str:
        return csv_lines.name(part.path, row, CsvRows(part.csv, len(part.names) == 1))

    def output_columns(self, output: Output) -> list[str]:
        if output.width is None:
            raise ValueError(
                f"the output {output.name!r} has a variable number of values, and CSV has a fixed "
                "number of columns. Predict Parquet, JSON lines or TFRecord files."
            )
        if output.width == 1:
            return [output.name]
        return [f"{output.name}/{i}" for i in range(output.width)]

    def writer(self, *args: Any) -> ArrowWriter:
        return _Predictions(*args)


# --- The first reading ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _File:
    """A file to read: `names` are its columns, `texts` the columns that the spec says are text."""

    path: str
    csv: CsvOptions
    names: tuple[str, ...]
    texts: tuple[str, ...]


_FILE = pydantic.TypeAdapter(_File)

# What a worker finds in a file: its columns and its number of rows.
_FOUND = pydantic.TypeAdapter(tuple[dict[str, TextColumn], int])


def _columns(
    files: Sequence[str],
    csv: CsvOptions,
    names: Mapping[str, tuple[str, ...]],
    request: ColumnRequest,
) -> tuple[list[Column], dict[str, int], CsvOptions, tuple[str, ...]]:
    """The columns, the rows of each file, and the options with what the fields decided, with notes.

    Without a spec, the fields decide `thousands`, and `missing` if no flag names it.

    A column has the type in the spec, or the type that fits all its fields. With a separator of
    lists, the lists of the spec have lists, and all other columns with the separator in a field.
    """
    dtypes = request.dtypes or {}
    texts = tuple(name for name, dtype in dtypes.items() if dtype == "string")
    pieces = (_FILE.dump_json(_File(path, csv, names[path], texts)) for path in files)
    results = [_FOUND.validate_json(each) for each in request.read_all(_read_file, pieces)]
    columns, _ = results[0]
    for others, _ in results[1:]:
        for name, column in columns.items():
            column.merge(others[name])

    def where(path: str, row: int) -> str:
        return csv_lines.name(path, row, CsvRows(csv, empty_rows=len(names[path]) == 1))

    if request.dtypes is None and not csv.missing:
        markers = {name: column.missing_markers for name, column in columns.items()}
        marked = {name: words for name, words in markers.items() if words}
        if marked:
            words = tuple(sorted({word for each in marked.values() for word in each}))
            in_text = [
                name
                for name, column in columns.items()
                if name not in marked and any(column.markers[word] for word in words)
            ]
            again = dataclasses.replace(csv, missing=words)
            typed, rows, csv, more = _columns(files, again, names, request)
            return typed, rows, csv, (_missing_note(words, list(marked), in_text), *more)
    notes: tuple[str, ...] = ()
    if csv.thousands is None:
        found = [name for name, column in columns.items() if column.has_thousands]
        decided = bool(found) and request.dtypes is None and csv.list_separator != ","
        decided = decided and not _have_decimal_commas(columns.values(), csv)
        csv = dataclasses.replace(csv, thousands=decided)
        if decided:
            notes = (_thousands_note(found),)
    typed = []
    for name, column in columns.items():
        column.settle_thousands(bool(csv.thousands))
        column.multi |= bool(csv.list_separator) and name in request.lists
        dtype, note = column.dtype(dtypes.get(name), where, request.correct)
        typed.append(Column(name, dtype, column.multi, note))
    return typed, {path: rows for path, (_, rows) in zip(files, results)}, csv, notes


def _have_decimal_commas(columns: Collection[TextColumn], csv: CsvOptions) -> bool:
    """Whether commas may be decimal points, as in 4,203.

    Programs that write them separate fields with semicolons. With another delimiter, it is so if a
    comma cannot separate thousands, as in 0,5, and no number has a point.
    """
    points = any(column.has_points for column in columns)
    return csv.delimiter == ";" or (not points and any(c.has_decimal_commas for c in columns))


def _missing_note(words: Sequence[str], names: Sequence[str], others: Sequence[str]) -> str:
    """The note about words that mean a missing value.

    Args:
      words: the words.
      names: the columns of numbers that have them.
      others: columns of text that have them, too.
    """
    another = next(word for word in ("NA", "NULL", "-", "?", "none") if word not in words)
    also = f", also in the text of {', '.join(others)}" if others else ""
    means = "means" if len(words) == 1 else "mean"
    return (
        f"{', '.join(map(repr, words))} {means} a missing value{also}, because all other "
        f"values of {', '.join(names)} are numbers; to read all of these as text, give only words "
        f"that mean a missing value, such as --csv_missing={another}"
    )


def _thousands_note(names: Sequence[str]) -> str:
    columns = ", ".join(map(repr, names))
    return (
        f"commas separate the thousands of numbers in {columns}, which a spec must say (tables: "
        "{csv_thousands: true}); use --nocsv_thousands to read them as text"
    )


def _read_file(common: bytes, piece: bytes) -> bytes:
    """Reads a file once, from its start to its end."""
    file = _FILE.validate_json(piece)
    row = 0
    columns = {name: TextColumn(name) for name in file.names}
    for batch in csv_files.batches(file.path, file.csv, file.names):
        for name, values in zip(batch.schema.names, batch.columns):
            cells = Cells(values, file.path, row)
            if name not in file.texts:
                cells = columns[name].without_missing(cells, file.csv.missing)
            cells = _values(file, columns[name], cells)
            if name not in file.texts:
                columns[name].add(cells)
        row += batch.num_rows
    return _FOUND.dump_json((columns, row))


def _values(file: _File, column: TextColumn, cells: Cells) -> Cells:
    """The values of the fields of a column, each with its row if fields may be lists.

    Raises:
      DataError: a list has an empty value.
    """
    separator = file.csv.list_separator
    if not separator:
        return cells
    fields, compute = cells.values, arrow("compute")
    column.multi |= bool(compute.any(compute.match_substring(fields, separator)).as_py())
    has_empty = compute.or_(
        compute.or_(
            compute.starts_with(fields, separator),
            compute.ends_with(fields, separator),
        ),
        compute.match_substring(fields, separator * 2),
    )
    wrong = np.flatnonzero(np.asarray(has_empty.fill_null(False)))
    if len(wrong):
        row = int(wrong[0])
        places = CsvRows(file.csv, empty_rows=len(file.names) == 1)
        raise DataError(
            f"{csv_lines.name(file.path, cells.before + row + 1, places)}: column "
            f"{column.name!r}: got {fields[row].as_py()!r}, a list with an empty value, as "
            f"--csv_list_separator is {separator!r}. Remove the empty value"
        )
    lists = _split_lists(fields, separator)
    lengths = np.asarray(compute.list_value_length(lists).fill_null(0), np.int64)
    rows = np.repeat(np.arange(len(fields)), lengths)
    return Cells(lists.flatten(), cells.path, cells.before, rows)


# --- Spaces at the start of fields ----------------------------------------------------------------


def _spaces_decided(
    files: Sequence[str], csv: CsvOptions
) -> tuple[CsvOptions, dict[str, tuple[int, ...]]]:
    """The options with `skip_spaces` decided, and the fields of the file that decided it."""
    if csv.skip_spaces is not None:
        return csv, {}
    spaced = {path: csv_lines.after_spaces(path, csv) for path in files}
    first = {path: fields for path, fields in spaced.items() if fields}
    return dataclasses.replace(csv, skip_spaces=bool(first)), dict(list(first.items())[:1])


def _all_spaced(path: str, fields: Sequence[int], names: Mapping[str, Sequence[str]]) -> str:
    quoted = ", ".join(repr(names[path][i - 1]) for i in fields)
    return f"{path}: every value of {quoted} begins with a space"


def _undecided(spaced: Mapping[str, Sequence[int]], names: Mapping[str, Sequence[str]]) -> str:
    """The error about spaces of which a spec says nothing.

    The next files may have them in some rows only. If each file decided, a word in training and the
    same word in a prediction would differ by a space.
    """
    ((path, fields),) = spaced.items()
    return (
        f"{_all_spaced(path, fields, names)}, and the spec does not say whether spaces at the "
        "start of fields count. Training and predictions must read them in the same way, so add "
        "this to the spec, with false to keep the spaces:\n"
        "tables:\n  csv_skip_spaces: true\n"
        "For an export, which keeps its spec, pass --csv_skip_spaces or --nocsv_skip_spaces, as "
        "its training data were converted"
    )


# --- Rows -----------------------------------------------------------------------------------------


def _with_missing(batch: Any, columns: Sequence[Column], csv: CsvOptions) -> Any:
    """A batch in which columns of numbers have no quoted fields for missing values.

    `text_types` says which fields these are.
    """
    compute = arrow("compute")
    for column in columns:
        place = batch.schema.get_field_index(column.name)
        if place == -1 or column.dtype not in ("int64", "float32"):
            continue
        words = [word for word in ("", *csv.missing) if word or not column.multi]
        hit = text_types.is_one_of(batch.column(place), words)
        if compute.any(hit).as_py():
            values = compute.if_else(hit, None, batch.column(place))
            batch = batch.set_column(place, column.name, values)
    return batch


def _without_commas(batch: Any, columns: Sequence[Column]) -> Any:
    """A batch in which the numbers of columns of numbers have no commas between thousands."""
    for column in columns:
        place = batch.schema.get_field_index(column.name)
        if place != -1 and column.dtype in ("int64", "float32"):
            values = text_types.without_commas(batch.column(place))
            batch = batch.set_column(place, column.name, values)
    return batch


def _with_lists(batch: Any, columns: Sequence[Column], csv: CsvOptions) -> Any:
    """A batch in which the fields of the columns with lists are lists."""
    if not csv.list_separator:
        return batch
    for column in columns:
        place = batch.schema.get_field_index(column.name)
        if column.multi and place != -1:
            lists = _split_lists(batch.column(place), csv.list_separator)
            batch = batch.set_column(place, column.name, lists)
    return batch


def _split_lists(column: Any, separator: str) -> Any:
    """A list array of text: the values of each field."""
    pa, compute = arrow(), arrow("compute")
    split = compute.split_pattern(column, separator)
    empty = np.asarray(compute.equal(column, "").fill_null(False))
    lengths = np.asarray(compute.list_value_length(split).fill_null(0), np.int64)
    flat = split.flatten()
    if empty.any():  # Otherwise each would be a list with one empty value.
        flat = flat.filter(pa.array(np.repeat(~empty, lengths)))
        lengths = np.where(empty, 0, lengths)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(offsets, flat, mask=mask)


class _Predictions(ArrowWriter):
    """Writes predictions: one column for each value of an output, and the text of kept columns."""

    def _open(self) -> Any:
        pa, csv = arrow(), arrow("csv")
        names = [(o, name) for o in self._outputs for name in FORMAT.output_columns(o)]
        self._schema = pa.schema(
            [(name, pa.string()) for name in self._keep] + [(n, o.arrow_type) for o, n in names]
        )
        options = csv.WriteOptions(delimiter=self._csv.separator(self._path))
        return csv.CSVWriter(self._sink, self._schema, write_options=options)

    def write(self, answers: Mapping[str, np.ndarray], batch: PredictedRows) -> None:
        columns = list(batch.kept)
        for output in self._outputs:
            values = flat(answers[output.name])
            columns += [output_array(values[:, i], output, batch) for i in range(values.shape[1])]
        self._writer.write_batch(arrow().RecordBatch.from_arrays(columns, schema=self._schema))


FORMAT = Csv()
