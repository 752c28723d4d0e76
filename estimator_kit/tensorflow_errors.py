"""The one line of a TensorFlow error that says what is wrong.

A session puts the reason between the op that failed and where that op was made, which is up to
thirty lines. Changes no error, and imports no TensorFlow.
"""

from __future__ import annotations

import re

# Of a line of a log.
_MOST = 400


def reason(error: BaseException) -> str:
    """What an error says, in a line of at most 400 characters; empty for one without a message."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line]
    # One above the other where an error was wrapped; the first reason stands below the last.
    nodes = [i for i, line in enumerate(lines[:-1]) if line.startswith("Node: '")]
    chosen = lines[nodes[-1] + 1] if nodes else next(iter(lines), "")
    if nodes and re.fullmatch(r"\d+ root error\(s\) found\.", chosen):
        chosen = next(iter(lines[nodes[-1] + 2 :]), chosen)
    return re.sub(r"^\{\{.*?\}\} |^\(0\) ", "", chosen)[:_MOST]
