"""How messages name a row of a table: the line of a CSV file, the number of the row elsewhere.

    name("a.jsonl", 12)                          # "a.jsonl: row 12"
    name("a.csv", 12, CsvRows(CsvOptions()))     # "a.csv: line 13"

A line of a CSV file is what an editor counts, from 1, with the line of names, comments, empty lines
and line breaks inside quotes. A row of several lines is named by its first one. pyarrow does not
tell the line, so the file is read again up to the row, for messages alone. Where the line cannot be
told, the row is named, and that the header is not counted. That is so where the file is long, has
changed or is gone, and where a carriage return alone ends a line, which not all programs count.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator
from typing import Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import streams
from input_pipelines.prepare.tables.csv_stream import LONGEST_LINE, LineCleaner
from input_pipelines.prepare.tables.library import reading
from input_pipelines.prepare.tables.options import CsvOptions

# Bytes, unpacked, that are read again for a message, which takes some seconds at most. Those that
# have to be looked at line by line count more.
_LOOK = 512 * 2**20
_LINE_BY_LINE = 32

_BLOCK = 2**20
_SIGNATURE = b"\xef\xbb\xbf"  # of UTF-8, before the first line


@dataclasses.dataclass(frozen=True)
class CsvRows:
    """How the rows of a CSV file are told apart.

    Attributes:
      options: how the file is written.
      empty_rows: whether an empty line is a row, as it is of a file with only one column.
    """

    options: CsvOptions
    empty_rows: bool = False


def name(path: str, row: int, csv: Optional[CsvRows] = None) -> str:
    """Names a row.

    Args:
      path: the file.
      row: counted from 1; of a CSV file without the line of names.
      csv: of a CSV file.
    """
    if csv is None:
        return f"{path}: row {row}"
    line = line_of(path, row, csv)
    if line is not None:
        return f"{path}: line {line}"
    return f"{path}: row {row}" + (" (the header is not counted)" * (not csv.options.columns))


def line_of(path: str, row: int, csv: CsvRows) -> Optional[int]:
    """The line of a CSV file on which a row begins; None where it cannot be told."""
    cleaner = LineCleaner(path, csv.options)
    left = row + (0 if csv.options.columns else 1)  # The line of names is the first one.
    lines, effort = 0, 0
    with contextlib.suppress(DataError), contextlib.closing(_blocks(path)) as blocks:
        for block in blocks:
            found = _starts(block, path, csv, cleaner)
            effort += len(block) * (1 if found is not None else _LINE_BY_LINE)
            starts, whole = found or _starts_line_by_line(block, csv, cleaner)
            if left <= len(starts):
                return lines + starts[left - 1] + 1
            if not whole or effort > _LOOK:
                return None
            left -= len(starts)
            lines += block.count(b"\n")
    return None


# The lines of a block, from 0, on which rows begin; and whether they are those of the whole block.
_Starts = tuple[list[int], bool]


def _starts(block: bytes, path: str, csv: CsvRows, cleaner: LineCleaner) -> Optional[_Starts]:
    """Where rows begin, by the number of quotes before each line; None where that is not enough.

    It is where each quote is the first or the last of a field, or one of two inside quotes. So the
    first, third, fifth quote follow a delimiter or a line break, and the others are before one; or
    there is a quote, of which the same holds.
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
    # A block begins behind a line break and ends with one.
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
    """Where rows begin, up to a line that a carriage return alone ends."""
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
    """Whole lines from the start of a file, about a megabyte of them at a time."""
    with reading(path), contextlib.closing(streams.open_text(path)) as source:
        rest = bytes(source.read(_BLOCK)).removeprefix(_SIGNATURE)
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
