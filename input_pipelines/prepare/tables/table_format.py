"""`TableFormat`: what `reader` and predictions need from a format of tables. One class a format.

A new format is a class in a module of `formats`, which ends with `FORMAT = ...`, and a line in
`record_files.kinds.TABLES`. It overrides what is abstract here, and what differs from the usual.
`ArrowWriter` is the base of the writers of predictions that use pyarrow.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np

from feature_specs.files.shards import ShardFile
from input_pipelines.errors import DataError
from input_pipelines.prepare.beam_runner import Work
from input_pipelines.prepare.tables.columns import Column
from input_pipelines.prepare.tables.library import arrow, size_of
from input_pipelines.prepare.tables.options import CsvOptions

# Calls a function of a module, `work(b"", piece)`, for each piece, and returns the results in the
# order of the pieces. Threads do that, or workers of Apache Beam on other machines.
ReadAll = Callable[[Work, Iterable[bytes]], list[bytes]]


@dataclasses.dataclass(frozen=True)
class Part:
    """Rows of one file that are read together.

    Attributes:
      path, kind: the file and its kind.
      first: the number of rows in the file before this part.
      columns: the columns of the table.
      csv: how a CSV file is written.
      groups: the row groups of the file, for a format that can read them separately.
      names: the columns of a CSV file in the order of the file.
      skip: how many rows at the start of the part are skipped.
      count: how many rows are read after the skipped ones; by default all.
    """

    path: str
    kind: str
    first: int
    columns: tuple[Column, ...]
    csv: CsvOptions = CsvOptions()
    groups: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    skip: int = 0
    count: Optional[int] = None


class ColumnRequest(NamedTuple):
    """How to find the columns of a table. For the other attributes, see `reader.open_table`.

    Attributes:
      read_all: reads whole files for the types of their columns.
    """

    csv: CsvOptions
    dtypes: Optional[Mapping[str, str]]
    lists: Collection[str]
    only: Optional[Collection[str]]
    correct: str
    read_all: ReadAll


class TableColumns(NamedTuple):
    """The columns of all files of a table.

    Attributes:
      columns: the columns. With `only`, the types of other columns do not matter.
      rows: the number of rows of each file. Empty for a format whose files declare it.
      csv, names: for CSV, the options as the files decide them, and the columns of each file.
      notes: notes for the user about how files are read.
    """

    columns: list[Column]
    rows: Mapping[str, int] = {}
    csv: CsvOptions = CsvOptions()
    names: Mapping[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Output:
    """An output of an export.

    Attributes:
      name: its name in the signature, for example `click/probabilities`.
      dtype: its NumPy dtype; `string` for bytes.
      width: the number of values for each row, or None if the signature does not fix it.
    """

    name: str
    dtype: str
    width: Optional[int]

    @property
    def arrow_type(self) -> Any:
        """The Arrow type of a value."""
        pa = arrow()
        if self.dtype == "string":
            return pa.string()
        return pa.float32() if self.dtype == "bfloat16" else pa.from_numpy_dtype(self.dtype)


class PredictedRows(Protocol):
    """Some rows of a file: their records, and an Arrow array for each column that is kept."""

    @property
    def records(self) -> np.ndarray: ...
    @property
    def kept(self) -> Sequence[Any]: ...
    def where(self, i: int) -> str: ...


class Writer:
    """Writes the predictions of one file, batch by batch."""

    def __init__(
        self,
        file: ShardFile,
        path: str,
        outputs: Sequence[Output],
        keep: Sequence[str],
        csv: CsvOptions,
    ):
        """A writer.

        Args:
          file: the file to write. The caller closes it.
          path: the input file, which may decide the CSV separator and the types of kept columns.
          outputs: the predictions.
          keep: the names of the columns to keep.
          csv: the CSV format.
        """
        self._file, self._path, self._outputs, self._keep = file, path, outputs, keep
        self._csv = csv

    def write(self, answers: Mapping[str, np.ndarray], batch: PredictedRows) -> None:
        """Adds the rows of a batch with their answers: [rows, width] for each output."""
        raise NotImplementedError

    def finish(self) -> None:
        """Writes what is left."""

    def discard(self) -> None:
        """Ends without an error and drops the file's content."""


class TableFormat(abc.ABC):
    """Reads and writes the files of one format.

    Attributes:
      cut_anywhere: whether rows can be read without the rows before them in the file.
      has_types: whether a file declares the types of its columns. Otherwise the numbers that are
        compared are text.
      output_suffix: what a file of predictions has after the name of its input, if it has another
        format.
    """

    cut_anywhere = False
    has_types = False
    output_suffix = ""

    @abc.abstractmethod
    def columns(self, files: Sequence[str], request: ColumnRequest) -> TableColumns:
        """The columns of all files.

        Raises:
          DataError: a file cannot be read, or the files do not fit together.
        """

    @abc.abstractmethod
    def batches(
        self, part: Part, size: int, names: Sequence[str], texts: Optional[Sequence[str]]
    ) -> Iterator[tuple[Any, Any]]:
        """The rows of a part twice, as record batches: for `reader.read_beside`, and to be stored.

        Ignores `part.skip` and `part.count`. The second batch has the columns of the part, and all
        the digits that the file has.

        Args:
          part: the part.
          size: the largest number of rows of a batch, if the format can choose it.
          names: the columns that are needed.
          texts: the columns that `read_beside` wants as the text of the file.
        """

    @abc.abstractmethod
    def writer(self, *args: Any) -> Writer:
        """A writer of predictions; for the arguments, see `Writer`."""

    def row_groups(self, path: str, rows: int) -> list[tuple[int, int]]:
        """What can be read separately: for each group, its number of rows and about its bytes.

        Args:
          path: the file.
          rows: its number of rows in `TableColumns.rows`.
        """
        return [(rows, size_of(path))]

    def where(self, part: Part, row: int) -> str:
        """The name of a row of a file in messages; rows count from 1."""
        return f"{part.path}: row {row}"

    def kept_value(self, text: Any) -> Any:
        """The value of a column that `read_beside` has read as the text of the file."""
        return text

    def output_columns(self, output: Output) -> list[str]:
        """The columns of a file of predictions that hold an output.

        Raises:
          ValueError: the format cannot store the output. The message says what to do.
        """
        return [output.name]


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


def as_declared(column: Column, dtypes: Mapping[str, str]) -> Column:
    """The column as float32, if it has integers and `dtypes` says float32."""
    if column.dtype == "int64" and dtypes.get(column.name) == "float32":
        return dataclasses.replace(column, dtype="float32")
    return column


NO_TEXT = "is not UTF-8 text, which this kind of file needs. Predict TFRecord files."


class _Sink:
    """A `ShardFile` with the methods that pyarrow needs to write."""

    closed = False
    discards = False  # True after a bad row, because pyarrow always writes the end of a file.

    def __init__(self, file: Any):
        self._file = file

    def write(self, content: Any) -> int:
        if not self.discards:
            self._file.write(content, 0)
        return len(content)

    def flush(self) -> None:
        """Does nothing: the shard is flushed when it is closed."""

    def close(self) -> None:
        self.closed = True


class ArrowWriter(Writer):
    """Subclasses define `write`, and `_open`, which sets `_schema` and returns pyarrow's writer."""

    _schema: Any

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._target = _Sink(self._file)
        self._sink = arrow().PythonFile(self._target, mode="w")
        self._writer = self._open()

    def _open(self) -> Any:
        raise NotImplementedError

    def finish(self) -> None:
        self._writer.close()
        self._sink.close()

    def discard(self) -> None:
        self._target.discards = True
        self._writer.close()
        self._sink.close()


def flat(values: np.ndarray) -> np.ndarray:
    """The values as [rows, values of a row]."""
    return values.reshape(len(values), -1)


def output_array(values: np.ndarray, output: Output, batch: PredictedRows) -> Any:
    """The values of an output, one row of the batch after the other, as an Arrow array."""
    pa = arrow()
    if output.dtype != "string":
        return pa.array(values.astype(np.float32) if output.dtype == "bfloat16" else values)
    try:
        return pa.array([value.decode() for value in values.tolist()], pa.string())
    except UnicodeDecodeError as error:
        raise DataError(
            f"{batch.where(0)} or a later row of its batch: the output {output.name!r} {NO_TEXT}"
        ) from error
