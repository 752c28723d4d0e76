"""Finds out how deeply JSON lines are nested before they are parsed.

pyarrow's parser calls itself for each level, and some thousand levels end the process. A block is
checked in one pass. Only lines with many brackets are checked separately. This module does not
parse JSON: for a line that is not JSON, its answer is meaningless.
"""

from __future__ import annotations

import re
from typing import Optional

import numpy as np

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
