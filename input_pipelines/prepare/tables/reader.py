"""Reads the files of one table as record batches of values that a TFRecord can store.

    table = open_table(files, csv=CsvOptions(missing=("?",)))
    table.columns, table.notes
    for part in table.parts():                     # one part for each file
        for rows in read(part, rounded):
            rows.batch, rows.where(0)              # a pyarrow.RecordBatch, "a.csv: line 2"

All batches have the columns of the table in the same order, with the types of
`columns.storage_type`. A batch has 8,192 rows, except for the last one of a part, so memory does
not grow with the files. CSV and JSON lines are read twice: first for the types of whole columns,
then for the rows.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

from feature_specs.errors import counted
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import (
    beam_pipeline,
    csv_files,
    csv_lists,
    csv_spaces,
    found_columns,
    json_files,
    parquet_files,
    row_places,
    streams,
    text_types,
)
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.row_places import CsvRows
from input_pipelines.prepare.tables.storable import DIGITS, Wide, all_columns
from input_pipelines.record_files import kinds

# The rows of a batch. Enough to make the cost of each call negligible. Analysis takes as many
# TFRecords at a time, so that sums of floats are rounded in the same places.
ROWS = 8192


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows of one file that are read together.

    Attributes:
      path, kind: the file and its kind.
      first: the number of rows in the file before this part.
      columns: the columns of the table.
      csv: how a CSV file is written.
      groups: the row groups of a Parquet file.
      names: the columns of a CSV file in the order of the file.
      skip: how many rows at the start of the part are skipped.
      count: how many rows are read after the skipped ones; by default all.
    """

    path: str
    kind: str
    first: int
    columns: tuple[Column, ...]
    csv: CsvOptions
    groups: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    skip: int = 0
    count: Optional[int] = None

    @property
    def csv_rows(self) -> Optional[CsvRows]:
        """How the rows of a CSV file are separated; None for other files."""
        return CsvRows(self.csv, len(self.names) == 1) if self.kind == kinds.CSV else None


@dataclasses.dataclass(frozen=True)
class Rows:
    """A batch that comes after the first `first` rows of a file; `csv` is its part's `csv_rows`.

    `wide` has the float64 values of float32 columns for comparisons, unless the file has float32.
    """

    batch: Any
    path: str
    first: int
    csv: Optional[CsvRows] = None
    wide: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def where(self, i: int) -> str:
        """The name of row `i` of the batch in error messages."""
        return row_places.name(self.path, self.first + i + 1, self.csv)


@dataclasses.dataclass(frozen=True)
class Table:
    """Files of one kind with the same columns; see `open_table`.

    Attributes:
      files, csv: the arguments of `open_table`.
      kind: the kind of the files, from their names.
      columns: the columns that are read.
      names: for each CSV file, all its columns in the order of the file.
      left_out: columns that the files have but that are not read.
      counted: the number of rows of each file. Empty for Parquet files, which declare it.
      file_notes: notes for the user about how files are read.
    """

    files: tuple[str, ...]
    kind: str
    columns: tuple[Column, ...]
    csv: CsvOptions
    names: Mapping[str, tuple[str, ...]]
    left_out: tuple[str, ...] = ()
    counted: Mapping[str, int] = dataclasses.field(default_factory=dict)
    file_notes: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Notes for the user about how files and columns are read."""
        of_columns = [f"{column.name}: {column.note}" for column in self.columns if column.note]
        return [*self.file_notes, *of_columns]

    def row_groups(self, path: str) -> list[int]:
        """The numbers of rows in the units that can be read separately: row groups or the file."""
        if self.kind == kinds.PARQUET:
            return [count for count, _ in parquet_files.row_groups(path)]
        return [self.counted[path]]

    def rows_of(self, path: str, start: int, stop: int, row_groups: Sequence[int]) -> Part:
        """The rows [start, stop) of a file; `row_groups` is the result of `self.row_groups(path)`.

        Only the row groups of a Parquet file that contain some of these rows are read.
        """
        part = Part(path, self.kind, 0, self.columns, self.csv, names=self.names.get(path, ()))
        groups: list[int] = []
        first = before = 0
        for i, count in enumerate(row_groups):
            if before + count > start and before < stop:
                first = first if groups else before
                groups.append(i)
            before += count
        if self.kind == kinds.PARQUET:
            part = dataclasses.replace(part, first=first, groups=tuple(groups))
        return dataclasses.replace(part, skip=start - part.first, count=stop - start)

    def parts(self) -> Iterator[Part]:
        """Each file, from the first to the last row, as one part."""
        return (part for group in self.groups(1, split=False) for part in group)

    def groups(self, least: int, *, split: bool = True) -> Iterator[list[Part]]:
        """Groups of parts in the order of the rows. Each group has `least` bytes or more.

        The groups depend only on the files. Parquet files may be split between row groups, unless
        `split` is false. Other files are never split.
        """
        group: list[Part] = []
        size = 0
        for path in self.files:
            for part, weight in self._pieces(path, least if split else None):
                group.append(part)
                size += weight
                if size >= least:
                    yield group
                    group, size = [], 0
        if group:
            yield group

    def _pieces(self, path: str, least: Optional[int]) -> Iterator[tuple[Part, int]]:
        part = Part(path, self.kind, 0, self.columns, self.csv, names=self.names.get(path, ()))
        if self.kind != kinds.PARQUET:
            yield part, streams.size_of(path)
            return
        first = rows = size = 0
        groups: list[int] = []
        for i, (count, weight) in enumerate(parquet_files.row_groups(path)):
            groups.append(i)
            rows += count
            size += weight
            if least is not None and size >= least:
                yield dataclasses.replace(part, first=first, groups=tuple(groups)), size
                first, size, groups = rows, 0, []
        if groups:
            yield dataclasses.replace(part, first=first, groups=tuple(groups)), size


def open_table(
    files: Sequence[str],
    *,
    csv: CsvOptions = CsvOptions(),
    dtypes: Optional[Mapping[str, str]] = None,
    only: Optional[Collection[str]] = None,
    beam: Optional[Sequence[str]] = None,
    correct: str = "correct the spec",
) -> Table:
    """Opens files as one table: checks that they fit together, and finds the types of all columns.

    Args:
      files: paths of at least one file. By their names, all have the same kind.
      csv: how CSV files are written.
      dtypes: known types, for instance from a spec. CSV fields must have these types, and integers
        may be read as float32. Names that the table lacks are ignored.
      only: the names of the columns to read, by default all. Names that the table lacks are
        ignored.
      beam: flags of an Apache Beam pipeline that reads CSV and JSON lines for their types. By
        default threads do that.
      correct: the remedy in errors about `dtypes`. A spec that belongs to an export cannot be
        corrected.

    Raises:
      DataError: a file cannot be read or has another kind, columns differ between files, or a value
        does not have the type in `dtypes`.
      MissingPackageError: pyarrow is not installed.
    """
    kind = kinds.kind_of_all(files)
    if csv != CsvOptions() and kind != kinds.CSV:
        raise DataError(
            "--csv_columns, --csv_delimiter, --csv_skip_spaces, --csv_comment, --csv_missing and "
            f"--csv_list_separator are only for CSV files, but {files[0]} is {kind} by its name"
        )
    arrow()
    known = dict(dtypes or {})
    look_all: found_columns.LookAll = found_columns.in_threads
    if beam is not None:
        look_all = beam_pipeline.looks(beam)
    names: dict[str, tuple[str, ...]] = {}
    counted: dict[str, int] = {}
    spaced: dict[str, tuple[int, ...]] = {}
    if kind == kinds.PARQUET:
        columns = found_columns.of_parquet(files, only)
    elif kind == kinds.CSV:
        csv, spaced = _spaces_decided(files, csv)
        names = {path: csv_files.names(path, csv) for path in files}
        for path in files:
            found_columns.check_names(files[0], names[files[0]], path, names[path])
        columns, counted = found_columns.of_csv(files, csv, names, known, look_all, correct)
    else:
        columns, counted = found_columns.of_json_lines(files, only, look_all)
    left_out = tuple(c.name for c in columns if only is not None and c.name not in only)
    columns = [column for column in columns if column.name not in left_out]
    columns = [
        dataclasses.replace(column, dtype="float32")
        if column.dtype == "int64" and known.get(column.name) == "float32"
        else column
        for column in columns
    ]
    file_notes = [
        f"{path}: every value of {', '.join(repr(names[path][i - 1]) for i in fields)} begins "
        "with a space, so spaces at the start of fields are ignored; use --nocsv_skip_spaces to "
        "keep them"
        for path, fields in spaced.items()
    ]
    return Table(
        tuple(files), kind, tuple(columns), csv, names, left_out, counted, tuple(file_notes)
    )


def _spaces_decided(
    files: Sequence[str], csv: CsvOptions
) -> tuple[CsvOptions, dict[str, tuple[int, ...]]]:
    """The options with `skip_spaces` decided, and the fields of the file that decided it."""
    if csv.skip_spaces is not None:
        return csv, {}
    spaced = {path: csv_spaces.after_spaces(path, csv) for path in files}
    first = {path: fields for path, fields in spaced.items() if fields}
    return dataclasses.replace(csv, skip_spaces=bool(first)), dict(list(first.items())[:1])


def read(part: Part, rounded: Optional[Counter[str]] = None) -> Iterator[Rows]:
    """The rows of a part.

    Args:
      part: a part of a table.
      rounded: counts, by column, how many values lost digits as float32.

    Raises:
      DataError: the file cannot be read, or a value cannot be stored; names the row.
    """
    rounded = Counter() if rounded is None else rounded
    first = part.first + part.skip
    count = len(part.columns)
    for both in _regular(_stored(part, rounded)):
        wide = dict(zip(both.schema.names[count:], both.columns[count:]))
        yield Rows(both.select(range(count)), part.path, first, part.csv_rows, wide)
        first += both.num_rows


def read_beside(
    part: Part, beside: Sequence[str], rounded: Optional[Counter[str]] = None
) -> Iterator[tuple[Rows, Any]]:
    """The rows of a part, and for each batch some columns as the file stores them.

    Batches have the sizes of the file's reader. For CSV files, the columns in `beside` are text. A
    column that a batch lacks is null. For the other arguments and errors, see `read`.
    """
    rounded = Counter() if rounded is None else rounded
    names = tuple(column.name for column in part.columns)
    wanted = (*names, *(name for name in beside if name not in names))
    first = part.first + part.skip
    pa = arrow()
    for raw, batch, wide in _read(part, wanted, rounded):
        arrays = [
            raw.column(place) if place != -1 else pa.nulls(raw.num_rows)
            for place in map(raw.schema.get_field_index, beside)
        ]
        yield Rows(batch, part.path, first, part.csv_rows, wide), arrays
        first += batch.num_rows


def rounding_notes(rounded: Mapping[str, int]) -> list[str]:
    """Notes for the user about values that lost digits."""
    return [
        f"{name}: {counted(count, 'value')} with more than {DIGITS} digits, rounded to a float32"
        for name, count in sorted(rounded.items())
    ]


def _stored(part: Part, rounded: Counter[str]) -> Iterator[Any]:
    """Batches of the file's reader, with the table's columns and types, and then the wide ones."""
    pa = arrow()
    names = [column.name for column in part.columns]
    for _, stored, wide in _read(part, names, rounded):
        yield pa.RecordBatch.from_arrays([*stored.columns, *wide.values()], [*names, *wide])


def _read(
    part: Part, names: Sequence[str], rounded: Counter[str]
) -> Iterator[tuple[Any, Any, Wide]]:
    """Batches of the file's reader: unchanged, stored, and wide. `names` are read from Parquet."""
    raw: Iterable[Any]
    if part.kind == kinds.PARQUET:
        raw = parquet_files.batches(part.path, part.groups, ROWS, names)
    elif part.kind == kinds.CSV:
        raw = csv_files.batches(part.path, part.csv, part.names)
    else:
        raw = json_files.batches(part.path)
    row = part.first + part.skip
    pa = arrow()
    for batch in _taken(raw, part.skip, part.count):
        batch = _with_missing(batch, part)
        rows = Rows(batch, part.path, row, part.csv_rows)
        try:
            stored, wide = all_columns(_with_lists(batch, part), part.columns, rows.where, rounded)
        except pa.ArrowException as error:
            raise DataError(
                f"{rows.where(0)}: this row and the {batch.num_rows - 1:,} rows after it do not "
                f"have the types that were found before: {error}. Check whether the file was "
                "changed while it was read"
            ) from error
        yield batch, stored, wide
        row += batch.num_rows


def _with_missing(batch: Any, part: Part) -> Any:
    """A batch in which columns of numbers have no quoted fields for missing values.

    `text_types` says which fields these are.
    """
    if part.kind != kinds.CSV:
        return batch
    compute = arrow("compute")
    for column in part.columns:
        place = batch.schema.get_field_index(column.name)
        if place == -1 or column.dtype not in ("int64", "float32"):
            continue
        words = [word for word in ("", *part.csv.missing) if word or not column.multi]
        hit = text_types.is_one_of(batch.column(place), words)
        if compute.any(hit).as_py():
            found = compute.if_else(hit, None, batch.column(place))
            batch = batch.set_column(place, column.name, found)
    return batch


def _with_lists(batch: Any, part: Part) -> Any:
    """A batch in which the fields of the columns with lists are lists; see `csv_lists`."""
    separator = part.csv.list_separator
    if part.kind != kinds.CSV or not separator:
        return batch
    for column in part.columns:
        place = batch.schema.get_field_index(column.name)
        if column.multi and place != -1:
            found = csv_lists.lists(batch.column(place), separator)
            batch = batch.set_column(place, column.name, found)
    return batch


def _taken(batches: Iterable[Any], skip: int, count: Optional[int]) -> Iterator[Any]:
    """The rows after the first `skip`: `count` of them, or all."""
    for batch in batches:
        here = min(skip, batch.num_rows)
        skip -= here
        batch = batch.slice(here, count)
        if count is not None:
            count -= batch.num_rows
        if batch.num_rows:
            yield batch
        if count == 0:
            return


def _regular(batches: Iterable[Any]) -> Iterator[Any]:
    """The same rows in batches of `ROWS` rows, except for the last batch."""
    pa = arrow()
    held: list[Any] = []
    count = 0

    def joined() -> Any:
        table = pa.Table.from_batches(held).combine_chunks()
        return pa.RecordBatch.from_arrays([c.chunk(0) for c in table.columns], schema=table.schema)

    for batch in batches:
        while batch.num_rows:
            held.append(batch.slice(0, ROWS - count))
            count += held[-1].num_rows
            batch = batch.slice(held[-1].num_rows)
            if count == ROWS:
                yield held[0] if len(held) == 1 else joined()
                held, count = [], 0
    if held:
        yield held[0] if len(held) == 1 else joined()
