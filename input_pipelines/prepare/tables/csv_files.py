"""Reads CSV files with pyarrow: every field as text, in batches. Types are not inferred here.

pyarrow infers a column's type from the first block of a file. It fails if a later value has another
type, and reads "00123" as 123. So this module requests all columns as bytes, and `text_types`
checks all values. Rows are counted from 1, without the line of column names, comments and empty
lines. Errors name the line of the file (`csv_lines`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import csv_lines, library
from input_pipelines.prepare.tables.csv_lines import CsvRows
from input_pipelines.prepare.tables.csv_stream import CsvStream
from input_pipelines.prepare.tables.library import LentStream, arrow, one_line, reading
from input_pipelines.prepare.tables.options import CsvOptions

# The bytes that are parsed together. A row must not be longer.
_BLOCK = 4 * 2**20
_SHOWN = 100

# pyarrow's message about a row of the wrong length. It ends with the first 100 bytes of the row.
# An invalid_row_handler gets the whole text, but fails for rows that are not UTF-8.
_WRONG_ROW = re.compile(
    r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL
)

# Common delimiters other than a comma.
_DELIMITERS = ("\t", ";", "|")


def names(path: str, options: CsvOptions) -> tuple[str, ...]:
    """The names of a file's columns.

    Raises:
      DataError: the file has no names, or a name is listed twice.
    """
    if options.columns:
        return options.columns
    with _opened(path, options, ()) as (lent, _):
        try:
            columns = tuple(lent.table.schema.names)
        except UnicodeDecodeError as error:
            raise DataError(
                csv_lines.utf16(path)
                or f"{path}: the names of its columns are not UTF-8: {error.object[:_SHOWN]!r}. "
                f"{csv_lines.WRITE_AGAIN}"
            ) from error
    for i, name in enumerate(columns):
        if name in columns[:i]:
            raise DataError(
                f"{path}: two columns are named {name!r}. Rename one of them. If the file has no "
                "line of column names, name the columns with --csv_columns"
            )
    other = next((sign for sign in _DELIMITERS if sign in columns[0]), None)
    if len(columns) == 1 and other is not None and not options.delimiter:
        raise DataError(
            f"{path}: its only column is named {columns[0]!r}. If {other!r} separates the fields, "
            "pass it as --csv_delimiter; otherwise pass the right delimiter"
        )
    return columns


def batches(path: str, options: CsvOptions, columns: Sequence[str]) -> Iterator[Any]:
    """The rows of a file as record batches of text; a missing value is null.

    Raises:
      DataError: the file cannot be read, or a row has too many or too few fields.
    """
    last, row = None, 0
    places = CsvRows(options, empty_rows=len(columns) == 1)
    with _opened(path, options, columns) as (lent, stream):
        names = lent.table.schema.names
        if names != list(columns):
            if names == [""]:
                raise DataError(
                    f"{path}: its first line is empty, but the name of its only column is expected "
                    "there: in a file with one column, an empty line is a row. Remove the line"
                )
            raise DataError(
                f"{path}: its columns are {', '.join(names)}, expected {', '.join(columns)}. It "
                "was changed while it was read. Start again when it is complete"
            )
        for batch in lent.table:
            if batch.num_rows:
                if not row and options.columns:
                    _check_no_names(batch, path, places)
                last = batch.column(batch.num_columns - 1)[-1].as_py()
                yield _text(batch, path, row, places)
                row += batch.num_rows
        if last is not None and stream.unclosed(last):
            raise DataError(
                f"{csv_lines.name(path, row, places)}: its last field starts with a quote that is "
                "never closed"
            )


@contextlib.contextmanager
def _opened(
    path: str, options: CsvOptions, columns: Sequence[str]
) -> Iterator[tuple[LentStream, CsvStream]]:
    """Opens a file with pyarrow's batch reader, which guesses the types of unnamed columns."""
    csv, pa = arrow("csv"), arrow()
    with reading(path), contextlib.ExitStack() as stack:
        stream = CsvStream(library.open_text(path), path, options)
        stack.callback(stream.close)
        lent = stack.enter_context(LentStream(stream))
        try:
            lent.table = csv.open_csv(
                lent.feed(),
                # With threads, pyarrow does not know the number of an invalid row.
                csv.ReadOptions(
                    use_threads=False, block_size=_BLOCK, column_names=options.columns or None
                ),
                csv.ParseOptions(
                    delimiter=options.separator(path),
                    newlines_in_values=True,
                    ignore_empty_lines=len(columns) != 1,
                ),
                csv.ConvertOptions(
                    column_types={name: pa.binary() for name in columns},
                    null_values=["", *options.missing],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            yield lent, stream
        except pa.ArrowInvalid as error:
            places = CsvRows(options, empty_rows=len(columns) == 1)
            message = _wrong_row(str(error), path, places)
            if "Empty CSV file" in str(error):
                message = csv_lines.why_no_rows(path, options)
            raise DataError(message or f"{path}: {_reason(error)}") from error


def _wrong_row(message: str, path: str, places: CsvRows) -> Optional[str]:
    """The message about a row of the wrong length; None if pyarrow's error is a different one."""
    wrong = _WRONG_ROW.fullmatch(message)
    if wrong is None:
        return None
    row, expected, count, text = wrong.groups()
    number = int(row) - (0 if places.options.columns else 1)
    return (
        f"{csv_lines.name(path, number, places)}: has {count} fields, expected {expected}: "
        f"{text!r}{_hint(text, places.options)}"
    )


def _reason(error: Exception) -> str:
    message = one_line(error)
    if "straddl" in message:
        return f"a row is longer than {_BLOCK // 2**20} MB. Check whether a quote is not closed"
    return message


def _hint(text: str, options: CsvOptions) -> str:
    """A possible cause of a wrong number of fields; usually empty."""
    other = max(_DELIMITERS, key=text.count)
    if not options.delimiter and 0 < text.count(other) >= text.count(","):
        return f". If {other!r} separates the fields, pass it as --csv_delimiter"
    if options.skip_spaces or not re.search('[^\\w\\s"] +"', text):
        return ""
    return (
        ". A quote after a space does not start a quoted field. Use --csv_skip_spaces to ignore "
        "such spaces"
    )


def _check_no_names(batch: Any, path: str, places: CsvRows) -> None:
    """Raises DataError if the first row of a file has the names of its columns."""
    first = [column[0].as_py() for column in batch.columns]
    if first == [name.encode() for name in batch.schema.names]:
        raise DataError(
            f"{csv_lines.name(path, 1, places)} has the names of the columns. Remove "
            "--csv_columns (in a spec, csv_columns under tables): it is only for files that do not "
            "start with a line of column names"
        )


def _text(batch: Any, path: str, before: int, places: CsvRows) -> Any:
    """Converts a batch of bytes to a batch of text."""
    pa = arrow()

    def where(i: int) -> str:
        return csv_lines.name(path, before + i + 1, places)

    columns = []
    for name, column in zip(batch.schema.names, batch.columns):
        columns.append(utf8(column, f"column {name!r}", where))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def utf8(column: Any, what: str, where: Callable[[int], str]) -> Any:
    """Converts bytes to text; `where` names the row of a value in errors.

    Raises:
      DataError: a value is not UTF-8.
    """
    pa = arrow()
    try:
        return column.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        for i, value in enumerate(column.cast(pa.binary()).to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{where(i)}: {what} is not UTF-8: {value[:_SHOWN]!r}. {csv_lines.WRITE_AGAIN}"
                ) from error
        raise
