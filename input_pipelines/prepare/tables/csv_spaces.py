"""Detects whether a comma and spaces separate the fields of a CSV file: `age, 39, private`.

    after_spaces("adult.csv", CsvOptions())     # (2, 3): the second and the third field of each row

For pyarrow, as in the CSV standard, such spaces are part of the fields: numbers would be text, and
quotes would not quote. This module reads the start of a file. If every value of a column begins
with a space there, `reader.open_table` ignores the spaces at the start of all fields and adds a
note, unless the user has set the option. Never changes a file.
"""

from __future__ import annotations

from collections import Counter

from input_pipelines.prepare.tables import streams
from input_pipelines.prepare.tables.csv_stream import CsvStream
from input_pipelines.prepare.tables.library import reading
from input_pipelines.prepare.tables.options import CsvOptions

# How many unpacked bytes are checked.
_LOOK = 2**20


def after_spaces(path: str, options: CsvOptions) -> tuple[int, ...]:
    """The fields, counted from 1, that begin with a space in every row at the start of a file.

    Empty fields do not count. The line of column names is ignored, and so are the fields of a row
    after its first quote: where they end depends on whether spaces are part of fields.
    """
    delimiter = options.separator(path).encode()
    if delimiter == b" ":
        return ()
    values: Counter[int] = Counter()
    spaced: Counter[int] = Counter()
    in_quotes = False
    for line in _lines(path, options)[0 if options.columns else 1 :]:
        continued = in_quotes
        in_quotes ^= line.count(b'"') % 2 == 1
        if continued:
            continue
        known, quote, _ = line.partition(b'"')
        fields = known.split(delimiter)
        if quote and not fields[-1]:
            fields[-1] = quote
        for i, field in enumerate(fields, 1):
            values[i] += field != b""
            spaced[i] += field.startswith(b" ")
    return tuple(i for i in sorted(spaced) if 0 < spaced[i] == values[i])


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
