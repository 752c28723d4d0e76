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
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Optional

from feature_specs.errors import counted
from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import (
    batches,
    beam_pipeline,
    csv_files,
    csv_start,
    found_columns,
    json_files,
    library,
    narrowing,
    parquet_files,
    row_places,
)
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.row_places import CsvRows
from input_pipelines.prepare.tables.storable import DIGITS, ZERO, Rounded, all_columns, array_of
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

    `written` has the numbers of some float32 columns as the file has them: see `read`.
    """

    batch: Any
    path: str
    first: int
    csv: Optional[CsvRows] = None
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)

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
            yield part, library.size_of(path)
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
    lists: Collection[str] = (),
    only: Optional[Collection[str]] = None,
    beam: Optional[Sequence[str]] = None,
    correct: str = "correct the spec",
) -> Table:
    """Opens files as one table: checks that they fit together, and finds the types of all columns.

    Args:
      files: paths of at least one file. By their names, all have the same kind.
      csv: how CSV files are written.
      dtypes: the types in the spec of the rows, if there is one. CSV fields must have these types,
        and integers may be read as float32. Names that the table lacks are ignored. With a spec,
        no content of a file decides how CSV is read.
      lists: the columns that are lists in the spec. If CSV has a separator of lists, they are
        lists, also if no field of these files has the separator.
      only: the names of the columns to read, by default all. Names that the table lacks are
        ignored.
      beam: flags of an Apache Beam pipeline that reads CSV and JSON lines for their types. By
        default threads do that.
      correct: the remedy in errors about `dtypes`. A spec that belongs to an export cannot be
        corrected.

    Raises:
      DataError: a file cannot be read or has another kind, columns differ between files, a value
        does not have the type in `dtypes`, or every value of a CSV column begins with a space and
        neither `csv` nor the spec says whether spaces count.
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
        columns = found_columns.of_parquet(files, only, known)
    elif kind == kinds.CSV:
        csv, spaced = _spaces_decided(files, csv)
        names = {path: csv_files.names(path, csv) for path in files}
        if spaced and dtypes is not None:
            raise DataError(_undecided(spaced, names))
        for path in files:
            found_columns.check_names(files[0], names[files[0]], path, names[path])
        columns, counted = found_columns.of_csv(files, csv, names, known, look_all, correct, lists)
    else:
        columns, counted = found_columns.of_json_lines(files, only, look_all)
    left_out = tuple(c.name for c in columns if only is not None and c.name not in only)
    columns = [
        found_columns.as_declared(column, known)
        for column in columns
        if column.name not in left_out
    ]
    file_notes = [
        f"{_all_spaced(path, fields, names)}, so spaces at the start of fields are ignored, which "
        "a spec must say (tables: {csv_skip_spaces: true}); use --nocsv_skip_spaces to keep them"
        for path, fields in spaced.items()
    ]
    return Table(
        tuple(files), kind, tuple(columns), csv, names, left_out, counted, tuple(file_notes)
    )


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


def _spaces_decided(
    files: Sequence[str], csv: CsvOptions
) -> tuple[CsvOptions, dict[str, tuple[int, ...]]]:
    """The options with `skip_spaces` decided, and the fields of the file that decided it."""
    if csv.skip_spaces is not None:
        return csv, {}
    spaced = {path: csv_start.after_spaces(path, csv) for path in files}
    first = {path: fields for path, fields in spaced.items() if fields}
    return dataclasses.replace(csv, skip_spaces=bool(first)), dict(list(first.items())[:1])


def read(
    part: Part, rounded: Optional[Rounded] = None, written: Collection[str] = ()
) -> Iterator[Rows]:
    """The rows of a part.

    Args:
      part: a part of a table.
      rounded: counts how many values a float32 does not keep.
      written: the columns whose numbers are compared. For float32 columns without lists, a batch
        also has the numbers as the file has them: float32, or the result of `narrowing.as_written`.
        For CSV files and JSON lines, this is text.

    Raises:
      DataError: the file cannot be read, or a value cannot be stored; names the row.
    """
    rounded = Counter() if rounded is None else rounded
    first = part.first + part.skip
    count = len(part.columns)
    for both in batches.regular(_stored(part, rounded, written), ROWS):
        numbers = dict(zip(both.schema.names[count:], both.columns[count:]))
        yield Rows(both.select(range(count)), part.path, first, part.csv_rows, numbers)
        first += both.num_rows


def read_beside(
    part: Part,
    extra: Sequence[str],
    rounded: Optional[Rounded] = None,
    written: Collection[str] = (),
    *,
    as_text: bool = False,
) -> Iterator[tuple[Rows, Any]]:
    """The rows of a part, and for each batch some columns as the file stores them.

    Batches have the sizes of the file's reader. For CSV files, the columns in `extra` are text.
    For JSON lines, they have the types that pyarrow infers from some lines, so a column may be
    int64 in one batch and float64 in the next. With `as_text`, they are the JSON text of the file
    instead: see `json_texts`. Other files do not change with `as_text`. A column that a batch lacks
    is null. For the other arguments and errors, see `read`.
    """
    rounded = Counter() if rounded is None else rounded
    names = tuple(column.name for column in part.columns)
    wanted = (*names, *(name for name in extra if name not in names))
    first = part.first + part.skip
    texts = extra if as_text and extra else None  # A batch without columns has no rows.
    for raw, batch, numbers in _read(part, wanted, rounded, written, texts):
        arrays = [array_of(raw, name) for name in extra]
        yield Rows(batch, part.path, first, part.csv_rows, numbers), arrays
        first += batch.num_rows


def rounding_notes(rounded: Mapping[tuple[str, str], int]) -> list[str]:
    """Notes for the user about values that a float32 does not keep."""
    lost = {
        DIGITS: f"with more than {narrowing.DIGITS} digits, rounded to a float32",
        ZERO: "too close to 0 for a float32, stored as 0",
    }
    return [
        f"{name}: {counted(count, 'value')} {lost[what]}"
        for (name, what), count in sorted(rounded.items())
    ]


def _stored(part: Part, rounded: Rounded, written: Collection[str]) -> Iterator[Any]:
    """Batches of the file's reader: the table's columns and types, and then the written numbers."""
    pa = arrow()
    names = [column.name for column in part.columns]
    for _, stored, numbers in _read(part, names, rounded, written):
        yield pa.RecordBatch.from_arrays([*stored.columns, *numbers.values()], [*names, *numbers])


def _read(
    part: Part,
    names: Sequence[str],
    rounded: Rounded,
    written: Collection[str],
    texts: Optional[Sequence[str]] = None,
) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Batches of the file's reader: unchanged, stored, and the numbers of `written`.

    `names` are read from Parquet. With `texts`, the unchanged batch of JSON lines has these columns
    as text.
    """
    row = part.first + part.skip
    pa = arrow()
    for raw, batch in batches.taken(_pairs(part, names, texts), part.skip, part.count):
        rows = Rows(raw, part.path, row, part.csv_rows)
        try:
            if part.kind == kinds.CSV:
                batch = batches.with_lists(batch, part.columns, part.csv)
            stored = all_columns(batch, part.columns, rows.where, rounded)
        except pa.ArrowException as error:
            raise DataError(
                f"{rows.where(0)}: this row and the {batch.num_rows - 1:,} rows after it do not "
                f"have the types that were found before: {error}. Check whether the file was "
                "changed while it was read"
            ) from error
        numbers = {
            column.name: _written(array_of(batch, column.name), part)
            for column in part.columns
            if column.name in written and column.dtype == "float32" and not column.multi
        }
        yield raw, stored, numbers
        row += batch.num_rows


def _pairs(
    part: Part, names: Sequence[str], texts: Optional[Sequence[str]]
) -> Iterator[tuple[Any, Any]]:
    """Batches of the file's reader, and the same rows with all digits of the file."""
    if part.kind == kinds.JSON:
        yield from json_files.batches_with_digits(part.path, texts)
    elif part.kind == kinds.CSV:
        for batch in csv_files.batches(part.path, part.csv, part.names):
            yield (batches.with_missing(batch, part.columns, part.csv),) * 2
    else:
        for batch in parquet_files.batches(part.path, part.groups, ROWS, names):
            yield batch, batch


def _written(array: Any, part: Part) -> Any:
    """The numbers of a column as the file has them, with one type in all batches of a part."""
    pa = arrow()
    if pa.types.is_float32(array.type) or pa.types.is_float16(array.type):
        return array.cast(pa.float32())
    numbers = narrowing.as_written(array)
    return numbers if part.kind == kinds.PARQUET else numbers.cast(pa.string())
