"""Says what is at the start of a CSV file in which pyarrow finds no column or no row.

    utf16(path)                      # a message if the file is UTF-16; otherwise None
    why_no_rows(path, options)       # a message

Only for messages: reads the first megabytes of the file, and never decides how a file is read.
"""

from __future__ import annotations

import contextlib
from typing import Optional

from input_pipelines.prepare.tables import streams
from input_pipelines.prepare.tables.csv_stream import SIGNATURE, LineCleaner
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
    with contextlib.closing(streams.open_text(path)) as source:
        return bytes(source.read(_READ))
