"""How messages name a row of a CSV file, and what the start of a file shows.

    name("a.csv", 12, CsvRows(CsvOptions()))     # "a.csv: line 13"

Lines of a CSV file are counted from 1, as in an editor: the line of column names, comments, empty
lines and line breaks inside quotes count. A row with several lines is named by its first line.
pyarrow does not know the line, so the file is read again up to the row, only for the message. If
the line cannot be found, the message gives the row, and says that the header is not counted. That
happens if the file is long, has changed or was removed, or if a carriage return alone ends a line:
not all programs count such lines.

The start of a file: do spaces follow delimiters, and why can nothing be read?

    after_spaces("adult.csv", options)     # (2, 3): the second and the third field of each row
    utf16(path)                            # a message if the file is UTF-16; otherwise None
    why_no_rows(path, options)             # a message, if pyarrow finds no column or no row

In `age, 39, private`, a comma and a space separate the fields. For pyarrow, as in the CSV standard,
such spaces are part of the fields: numbers would be text, and quotes would not quote. If every
value of a column begins with a space at the start of the file, `reader.open_table` ignores the
spaces at the start of all fields and adds a note, unless the user has set the option. This module
never changes a file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import library
from input_pipelines.prepare.tables.csv_stream import (
    LONGEST_LINE,
    SIGNATURE,
    CsvStream,
    LineCleaner,
)
from input_pipelines.prepare.tables.library import reading
from input_pipelines.prepare.tables.options import CsvOptions

# The most unpacked bytes that are read again for a message, which takes a few seconds. Bytes that
# must be read line by line count more.
_LONGEST_LOOK = 512 * 2**20
_LINE_BY_LINE = 32

_BLOCK = 2**20


@dataclasses.dataclass(frozen=True)
class CsvRows:
    """How the rows of a CSV file are separated.

    Attributes:
      options: how the file is written.
      empty_rows: whether an empty line is a row, as in a file with only one column.
    """

    options: CsvOptions
    empty_rows: bool = False


def name(path: str, row: int, csv: CsvRows) -> str:
    """The name of a row in messages.

    Args:
      path: the file.
      row: the number of the row, from 1. The line of column names does not count.
      csv: how the rows are separated.
    """
    line = line_of(path, row, csv)
    if line is not None:
        return f"{path}: line {line}"
    note = "" if csv.options.columns else " (the header is not counted)"
    return f"{path}: row {row}{note}"


def line_of(path: str, row: int, csv: CsvRows) -> Optional[int]:
    """The line of a CSV file on which a row begins; None if it cannot be found."""
    cleaner = LineCleaner(path, csv.options)
    left = row + (0 if csv.options.columns else 1)  # The line of column names is the first one.
    lines, effort = 0, 0
    with contextlib.suppress(DataError), contextlib.closing(_blocks(path)) as blocks:
        for block in blocks:
            quick = _starts(block, path, csv, cleaner)
            effort += len(block) * (1 if quick is not None else _LINE_BY_LINE)
            starts, is_complete = quick or _starts_line_by_line(block, csv, cleaner)
            if left <= len(starts):
                return lines + starts[left - 1] + 1
            if not is_complete or effort > _LONGEST_LOOK:
                return None
            left -= len(starts)
            lines += block.count(b"\n")
    return None


# The lines of a block, from 0, on which rows begin; and whether the whole block was read.
_Starts = tuple[list[int], bool]


def _starts(block: bytes, path: str, csv: CsvRows, cleaner: LineCleaner) -> Optional[_Starts]:
    """Where rows begin, by the number of quotes before each line; None if that is not enough.

    It is enough if each quote starts or ends a field, or is one of two quotes inside quotes. Then
    every odd quote comes after a delimiter, a line break or another quote, and every even quote
    comes before one.
    """
    comment = csv.options.comment.encode()
    if csv.options.skip_spaces or (comment and comment in block):
        return None
    if block.count(b"\r") != block.count(b"\r\n"):
        return None
    octets = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(octets == ord('"'))
    inside = int(cleaner.in_quotes)
    ends = np.frombuffer(f'{csv.options.separator(path)}\r\n"'.encode(), np.uint8)
    # A block begins after a line break and ends with one.
    before = np.where(quotes > 0, octets[quotes - 1], ord("\n"))[inside::2]
    after = octets[quotes + 1][1 - inside :: 2]
    if not (np.isin(before, ends).all() and np.isin(after, ends).all()):
        return None
    breaks = np.flatnonzero(octets == ord("\n"))
    between = (np.searchsorted(quotes, breaks) + inside) % 2 == 0  # Not inside quotes.
    begins = np.concatenate([[not inside], between[:-1]])
    if not csv.empty_rows:
        lengths = np.diff(breaks, prepend=-1) - 1
        returns = octets[np.maximum(breaks - 1, 0)] == ord("\r")
        begins &= lengths > (returns & (lengths > 0))
    cleaner.in_quotes = bool((len(quotes) + inside) % 2)
    return np.flatnonzero(begins).tolist(), True


def _starts_line_by_line(block: bytes, csv: CsvRows, cleaner: LineCleaner) -> _Starts:
    """Where rows begin, up to a line that ends with only a carriage return."""
    starts: list[int] = []
    for i, line in enumerate(block.splitlines(keepends=True)):
        if line.endswith(b"\r"):
            return starts, False
        continued = cleaner.in_quotes
        cleaned = cleaner.clean(line)
        empty = not cleaned.rstrip(b"\r\n")
        if not continued and cleaned and (csv.empty_rows or not empty):
            starts.append(i)
    return starts, True


def _blocks(path: str) -> Generator[bytes, None, None]:
    """Complete lines from the start of a file, about a megabyte at a time."""
    with reading(path), contextlib.closing(library.open_text(path)) as source:
        rest = bytes(source.read(_BLOCK)).removeprefix(SIGNATURE)
        while len(rest) <= LONGEST_LINE:
            content = bytes(source.read(_BLOCK))
            if not content:
                if rest:
                    yield rest if rest.endswith(b"\n") else rest + b"\n"
                return
            end = content.rfind(b"\n") + 1
            if end:
                yield rest + content[:end]
                rest = content[end:]
            else:
                rest += content


WRITE_AGAIN = "Write the file again in UTF-8"

_READ = 4 * 2**20
_SHOWN = 100
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def utf16(path: str) -> Optional[str]:
    """The message about a file that starts with the signature (BOM) of UTF-16 or UTF-32."""
    start = _start(path)
    if not start.startswith(_UTF16):
        return None
    return (
        f"{path}: starts with {start[:2]!r}, so its text is UTF-16, but UTF-8 is expected. "
        f"{WRITE_AGAIN}; in Excel, save it as CSV UTF-8"
    )


def why_no_rows(path: str, options: CsvOptions) -> str:
    """The message about a file in which pyarrow finds neither names nor rows."""
    message = utf16(path)
    if message is not None:
        return message
    expected = "a CSV file starts with a line of column names" + (
        "" if not options.columns else ", or with a row if you pass --csv_columns"
    )
    start = _start(path).removeprefix(SIGNATURE)
    if not start:
        return f"{path}: is empty; {expected}"
    cleaner = LineCleaner(path, options)
    number, quoted = 0, 0
    shown = b""
    for number, line in enumerate(start.splitlines(keepends=True), start=1):
        before = cleaner.in_quotes
        cleaned = cleaner.clean(line).strip()
        if cleaner.in_quotes and not before:
            quoted = number
        shown = shown or cleaned
    if cleaner.in_quotes:
        return f"{path}: line {quoted}: has a quote that is never closed. Close it, or remove it"
    if not shown:
        what = "empty lines and comments" if options.comment else "empty lines"
        return f"{path}: has only {what}; {expected}"
    return (
        f"{path}: has only {shown[:_SHOWN]!r}, without a line break; {expected}. Write the whole "
        "file again"
    )


def _start(path: str) -> bytes:
    with contextlib.closing(library.open_text(path)) as source:
        return bytes(source.read(_READ))


# How many unpacked bytes are checked, and how many rows if no column has only spaces until then.
_START = 2**20
_ROWS = 1000

# The most bytes of a row. A longer row is probably a quote that is never closed.
_LONGEST = 2**16


def after_spaces(path: str, options: CsvOptions) -> tuple[int, ...]:
    """The fields, counted from 1, that begin with a space in every row at the start of a file.

    Empty fields do not count. The line of column names is ignored. A quote after spaces starts a
    quoted field here: that is how the file is read if this function finds any field.
    """
    delimiter = options.separator(path).encode()
    if delimiter == b" ":
        return ()
    values: Counter[int] = Counter()
    spaced: Counter[int] = Counter()
    for row, fields in enumerate(_rows(_lines(path, options), delimiter)):
        if row == 0 and not options.columns:
            continue
        for i, field in enumerate(fields, 1):
            values[i] += field != b""
            spaced[i] += field.startswith(b" ")
        if row >= _ROWS and not any(0 < spaced[i] == values[i] for i in spaced):
            return ()
    return tuple(i for i in sorted(spaced) if 0 < spaced[i] == values[i])


def _rows(lines: Sequence[bytes], delimiter: bytes) -> Iterator[list[bytes]]:
    """The fields of each row, with their quotes. Rows may have several lines."""
    field = re.compile(
        rb'( *"[^"]*(?:""[^"]*)*"[^%(d)s]*)|[^%(d)s]*' % {b"d": re.escape(delimiter)}
    )
    row = b""
    for line in lines:
        in_quotes = bool(row)
        row += line
        if len(row) > _LONGEST:
            return
        if in_quotes and b'"' not in line:
            row += b"\n"
            continue
        fields, at, is_whole = [], 0, True
        while is_whole and at <= len(row):
            match = field.match(row, at)
            assert match is not None  # The pattern also matches nothing.
            fields.append(match[0])
            at = match.end() + 1
            is_whole = match[1] is not None or not match[0].lstrip(b" ").startswith(b'"')
        if is_whole:
            yield fields
            row = b""
        else:
            row += b"\n"  # A quote is not closed on this line.


def _lines(path: str, options: CsvOptions) -> list[bytes]:
    """The complete lines at the start of a file, without comments."""
    content = b""
    with reading(path):
        stream = CsvStream(library.open_text(path), path, options)
        try:
            while len(content) < _START:
                more = stream.read(_START)
                if not more:
                    break
                content += more
        finally:
            stream.close()
    return [line for line in content[: content.rfind(b"\n") + 1].splitlines() if line]
