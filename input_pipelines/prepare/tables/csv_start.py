"""Looks at the start of a CSV file: do spaces follow delimiters, and why can nothing be read?

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
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Optional

from input_pipelines.prepare.tables import library
from input_pipelines.prepare.tables.csv_stream import SIGNATURE, CsvStream, LineCleaner
from input_pipelines.prepare.tables.library import reading
from input_pipelines.prepare.tables.options import CsvOptions

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
_LOOK = 2**20
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
            while len(content) < _LOOK:
                more = stream.read(_LOOK)
                if not more:
                    break
                content += more
        finally:
            stream.close()
    return [line for line in content[: content.rfind(b"\n") + 1].splitlines() if line]
