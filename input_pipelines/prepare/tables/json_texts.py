"""The values of some keys of JSON lines, as the text that the file has.

    batch(block, ["id", "tags"], "a.jsonl", before=0, rows=2)    # '9007199254740993', '["a", null]'

No value is parsed, so none can change: not its digits, its escapes or the order of the keys in it.
A key that a line lacks is null, and the value `null` is the text "null". A line break inside a list
or object becomes a space, so that the value fits into one line. The block must be one that pyarrow
has read. Other text gives an error or other values. Never looks into lists and objects.

pyarrow's parser calls itself for each level, and some thousand levels end the process. So
`first_too_deep` counts levels before a block is parsed, in one pass. Only lines with many brackets
are checked separately. For a line that is not JSON, its answer is meaningless.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import numpy as np

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables.library import arrow

_GAP = rb"[ \t\r\n]*"
_INSIDE = rb'[^"\\]*(?:\\.[^"\\]*)*'  # Of a string.
_START = re.compile(rb"(?:\xef\xbb\xbf)?" + _GAP + rb"\{" + _GAP + rb"(\})?" + _GAP, re.DOTALL)

# A key, and its value if that is not a list or an object, with what follows it.
_MEMBER = re.compile(
    rb'"(' + _INSIDE + rb')"' + _GAP + rb":" + _GAP
    + rb'(?:("' + _INSIDE + rb'"|[^"\[\]{}, \t\r\n]+)' + _GAP + rb"([,}])" + _GAP + rb")?",
    re.DOTALL,
)  # fmt: skip
_NEXT = re.compile(_GAP + rb"([,}])" + _GAP)
_BRACKET = re.compile(rb'"' + _INSIDE + rb'"|[\[\]{}]', re.DOTALL)

# Line breaks and tabs. pyarrow refuses them inside strings.
_CONTROL = re.compile(rb"[\x00-\x1f]")


def batch(block: bytes, names: Sequence[str], path: str, before: int, rows: int) -> Any:
    """A record batch with a column of text for each name; null where a line lacks the key.

    Args:
      block: lines of a file, without an error for pyarrow.
      names: the keys.
      path, before: the file, and the number of its rows before the block, for errors.
      rows: the number of rows that pyarrow has read.

    Raises:
      DataError: a value is not UTF-8, or the block has another number of objects.
    """
    pa = arrow()
    columns: list[list[Optional[str]]] = [[] for _ in names]
    count = 0
    for count, row in enumerate(_rows(block, names, path, before), start=1):
        for name, text, column in zip(names, row, columns):
            try:
                column.append(None if text is None else text.decode())
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}: row {before + count}: column {name!r} is not UTF-8: {text!r}. Write "
                    "the file again in UTF-8"
                ) from error
    check_count(count, path, before, rows)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, pa.string()) for column in columns], list(names)
    )


def check_count(count: int, path: str, before: int, rows: int) -> None:
    """Raises DataError unless a block has as many objects as pyarrow has read."""
    if count != rows:
        raise DataError(
            f"{path}: got {count:,} objects after row {before}, expected {rows:,}. Check whether "
            "each line has one object"
        )


def _rows(
    block: bytes, names: Sequence[str], path: str, before: int
) -> Iterator[list[Optional[bytes]]]:
    places = {
        json.dumps(name, ensure_ascii=False)[1:-1].encode(): i for i, name in enumerate(names)
    }
    block = block.rstrip()
    at, count = 0, 0
    while at < len(block):
        row: list[Optional[bytes]] = [None] * len(names)
        start = _START.match(block, at)
        done = start is not None and start[1] is not None
        at = start.end() if start is not None else -1
        while at >= 0 and not done:
            key, text, end, at = _member(block, at)
            place = places.get(_plain(key))
            if place is not None:
                row[place] = _CONTROL.sub(b" ", text)
            done = end == b"}"
        count += 1
        if at < 0:
            raise DataError(
                f"{path}: row {before + count}: expected one object, got other text. Check "
                "whether each line has one object"
            )
        yield row


def _member(block: bytes, at: int) -> tuple[bytes, bytes, bytes, int]:
    """The key and value at a place, the character after them, and the next place; -1 if none."""
    member = _MEMBER.match(block, at)
    if member is None:
        return b"", b"", b"}", -1
    if member[2] is not None:
        return member[1], member[2], member[3], member.end()
    start = end = member.end()
    depth = 0
    for bracket in _BRACKET.finditer(block, start):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(bracket[0], 0)
        if not depth:
            end = bracket.end()
            break
    after = _NEXT.match(block, end)
    if after is None or block[start : start + 1] not in (b"[", b"{"):
        return b"", b"", b"}", -1
    return member[1], block[start:end], after[1], after.end()


def _plain(key: bytes) -> bytes:
    """A key with the escapes that `json.dumps` writes."""
    if b"\\" not in key:
        return key
    text = json.loads(b'"' + key + b'"')
    return json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="replace")


# The most levels of a line. A row of a table has two.
DEEPEST = 50

_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')


def first_too_deep(block: bytes) -> Optional[int]:
    """The index, among the lines that are not blank, of the first line with too many levels."""
    content = np.frombuffer(block, np.uint8)
    opening = np.flatnonzero((content | 0x20) == ord("{"))  # `| 0x20` also turns [ into {.
    if len(opening) <= DEEPEST:
        return None
    ends = np.flatnonzero(content == ord("\n"))
    # A line with too many levels has two of these. So may a line with brackets side by side or in
    # a text.
    line_of = np.searchsorted(ends, opening[:: DEEPEST // 2])
    for line in np.unique(line_of[1:][line_of[1:] == line_of[:-1]]):
        start = ends[line - 1] + 1 if line else 0
        stop = ends[line] if line < len(ends) else len(block)
        if _levels(block[start:stop]) > DEEPEST:
            return lines_in(block[:start])
    return None


def lines_in(block: bytes) -> int:
    """The number of lines that are not blank."""
    return sum(bool(line.strip()) for line in block.split(b"\n"))


def _levels(line: bytes) -> int:
    content = np.frombuffer(_TEXT.sub(b"", line), np.uint8)
    opened = ((content | 0x20) == ord("{")).astype(np.int64)
    closed = (content | 0x20) == ord("}")
    return int(np.cumsum(opened - closed).max(initial=0))
