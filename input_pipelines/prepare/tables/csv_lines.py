"""How messages name a row of a CSV file: by its line.

    name("a.csv", 12, CsvRows(CsvOptions()))     # "a.csv: line 13"

Lines of a CSV file are counted from 1, as in an editor: the line of column names, comments, empty
lines and line breaks inside quotes count. A row with several lines is named by its first line.
pyarrow does not know the line, so the file is read again up to the row, only for the message. If
the line cannot be found, the message gives the row, and says that the header is not counted. That
happens if the file is long, has changed or was removed, or if a carriage return alone ends a line:
not all programs count such lines.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator
from typing import Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import library
from input_pipelines.prepare.tables.csv_stream import LONGEST_LINE, SIGNATURE, LineCleaner
from input_pipelines.prepare.tables.library import reading
from input_pipelines.prepare.tables.options import CsvOptions

# The most unpacked bytes that are read again for a message, which takes a few seconds. Bytes that
# must be read line by line count more.
_LOOK = 512 * 2**20
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
            starts, whole = quick or _starts_line_by_line(block, csv, cleaner)
            if left <= len(starts):
                return lines + starts[left - 1] + 1
            if not whole or effort > _LOOK:
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
