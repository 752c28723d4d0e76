"""Detects whether a comma and spaces separate the fields of a CSV file: `age, 39, private`.

    after_spaces("adult.csv", CsvOptions())     # (2, 3): the second and the third field of each row

For pyarrow, as in the CSV standard, such spaces are part of the fields: numbers would be text, and
quotes would not quote. This module reads the start of a file. If every value of a column begins
with a space there, `reader.open_table` ignores the spaces at the start of all fields and adds a
note, unless the user has set the option. Never changes a file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from input_pipelines.prepare.tables import streams
from input_pipelines.prepare.tables.csv_stream import CsvStream
from input_pipelines.prepare.tables.library import reading
from input_pipelines.prepare.tables.options import CsvOptions

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
        stream = CsvStream(streams.open_text(path), path, options)
        try:
            while len(content) < _LOOK:
                more = stream.read(_LOOK)
                if not more:
                    break
                content += more
        finally:
            stream.close()
    return [line for line in content[: content.rfind(b"\n") + 1].splitlines() if line]
