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

import concurrent.futures
import dataclasses
import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

from feature_specs.errors import counted
from input_pipelines.errors import DataError, cores
from input_pipelines.prepare import beam_runner
from input_pipelines.prepare.beam_runner import Work
from input_pipelines.prepare.tables import formats, storable
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.storable import DIGITS, ZERO, Rounded, all_columns, array_of
from input_pipelines.prepare.tables.table_format import ColumnRequest, Part, as_declared
from input_pipelines.record_files import kinds

# The rows of a batch. Enough to make the cost of each call negligible. Analysis takes as many
# TFRecords at a time, so that sums of floats are rounded in the same places.
ROWS = 8192


@dataclasses.dataclass(frozen=True)
class Rows:
    """A batch that comes after the first `first` rows of the file of a part.

    `written` has the numbers of some float32 columns as the file has them: see `read`.
    """

    batch: Any
    part: Part
    first: int
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def path(self) -> str:
        """The file."""
        return self.part.path

    def where(self, i: int) -> str:
        """The name of row `i` of the batch in error messages."""
        return where(self.part, self.first + i + 1)


def where(part: Part, row: int) -> str:
    """The name of a row of a file in error messages; rows count from 1."""
    return formats.of(part.kind).where(part, row)


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

    @property
    def cut_anywhere(self) -> bool:
        """Whether rows can be read without the rows before them in their file."""
        return formats.of(self.kind).cut_anywhere

    def row_groups(self, path: str) -> list[int]:
        """The numbers of rows in the units that can be read separately: row groups or the file."""
        return [count for count, _ in self._groups(path)]

    def _groups(self, path: str) -> list[tuple[int, int]]:
        return formats.of(self.kind).row_groups(path, self.counted.get(path, 0))

    def _part(self, path: str) -> Part:
        names = self.names.get(path, ())
        return Part(path, self.kind, 0, self.columns, self.csv, names=names)

    def rows_of(self, path: str, start: int, stop: int, row_groups: Sequence[int]) -> Part:
        """The rows [start, stop) of a file; `row_groups` is the result of `self.row_groups(path)`.

        Only the row groups that contain some of these rows are read.
        """
        groups: list[int] = []
        first = before = 0
        for i, count in enumerate(row_groups):
            if before + count > start and before < stop:
                first = first if groups else before
                groups.append(i)
            before += count
        return dataclasses.replace(
            self._part(path),
            first=first,
            groups=tuple(groups),
            skip=start - first,
            count=stop - start,
        )

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
        part = self._part(path)
        first = rows = size = 0
        groups: list[int] = []
        for i, (count, weight) in enumerate(self._groups(path)):
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
            "--csv_columns, --csv_delimiter, --csv_skip_spaces, --csv_comment, --csv_missing, "
            f"--csv_list_separator and --csv_thousands are only for CSV files, but {files[0]} is "
            f"{kind} by its name"
        )
    arrow()
    read_all = _in_threads if beam is None else functools.partial(_by_beam, beam)
    request = ColumnRequest(csv, dtypes, lists, only, correct, read_all)
    of_files = formats.of(kind).columns(files, request)
    return Table(
        tuple(files),
        kind,
        tuple(
            as_declared(column, dtypes or {})
            for column in of_files.columns
            if only is None or column.name in only
        ),
        of_files.csv,
        of_files.names,
        tuple(c.name for c in of_files.columns if only is not None and c.name not in only),
        of_files.rows,
        of_files.notes,
    )


def _in_threads(work: Work, pieces: Iterable[bytes]) -> list[bytes]:
    """Reads several files at the same time. pyarrow releases the interpreter's lock."""
    with concurrent.futures.ThreadPoolExecutor(cores()) as pool:
        waiting = [pool.submit(work, b"", piece) for piece in pieces]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            for future in waiting:
                future.cancel()
            raise


def _by_beam(flags: Sequence[str], work: Work, pieces: Iterable[bytes]) -> list[bytes]:
    """Reads files on the workers of a pipeline with these flags of Apache Beam."""
    with beam_runner.scratch(flags) as folder:
        return list(beam_runner.run(work, b"", iter(pieces), folder=folder, flags=flags))


def read(
    part: Part, rounded: Optional[Rounded] = None, written: Collection[str] = ()
) -> Iterator[Rows]:
    """The rows of a part.

    Args:
      part: a part of a table.
      rounded: counts how many values a float32 does not keep.
      written: the columns whose numbers are compared. For float32 columns without lists, a batch
        also has the numbers as the file has them: float32, or the result of `storable.as_written`.
        For CSV files and JSON lines, this is text.

    Raises:
      DataError: the file cannot be read, or a value cannot be stored; names the row.
    """
    rounded = Counter() if rounded is None else rounded
    first = part.first + part.skip
    count = len(part.columns)
    for both in _regular(_stored(part, rounded, written), ROWS):
        numbers = dict(zip(both.schema.names[count:], both.columns[count:]))
        yield Rows(both.select(range(count)), part, first, numbers)
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
        yield Rows(batch, part, first, numbers), arrays
        first += batch.num_rows


def rounding_notes(rounded: Mapping[tuple[str, str], int]) -> list[str]:
    """Notes for the user about values that a float32 does not keep."""
    lost = {
        DIGITS: f"with more than {storable.EXACT_DIGITS} digits, rounded to a float32",
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
    both = formats.of(part.kind).batches(part, ROWS, names, texts)
    for raw, batch in _taken(both, part.skip, part.count):
        rows = Rows(raw, part, row)
        try:
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


def _written(array: Any, part: Part) -> Any:
    """The numbers of a column as the file has them, with one type in all batches of a part."""
    pa = arrow()
    if pa.types.is_float32(array.type) or pa.types.is_float16(array.type):
        return array.cast(pa.float32())
    numbers = storable.as_written(array)
    return numbers if formats.of(part.kind).has_types else numbers.cast(pa.string())


def _taken(
    pairs: Iterable[tuple[Any, Any]], skip: int, count: Optional[int]
) -> Iterator[tuple[Any, Any]]:
    """The rows after the first `skip`: `count` of them, or all. Both batches have the same rows."""
    for batch, other in pairs:
        here = min(skip, batch.num_rows)
        skip -= here
        batch, other = batch.slice(here, count), other.slice(here, count)
        if count is not None:
            count -= batch.num_rows
        if batch.num_rows:
            yield batch, other
        if count == 0:
            return


def _regular(batches: Iterable[Any], size: int) -> Iterator[Any]:
    """The same rows in batches of `size` rows, except for the last batch."""
    pa = arrow()
    waiting: list[Any] = []
    count = 0

    def joined() -> Any:
        table = pa.Table.from_batches(waiting).combine_chunks()
        return pa.RecordBatch.from_arrays([c.chunk(0) for c in table.columns], schema=table.schema)

    for batch in batches:
        while batch.num_rows:
            waiting.append(batch.slice(0, size - count))
            count += waiting[-1].num_rows
            batch = batch.slice(waiting[-1].num_rows)
            if count == size:
                yield waiting[0] if len(waiting) == 1 else joined()
                waiting, count = [], 0
    if waiting:
        yield waiting[0] if len(waiting) == 1 else joined()
