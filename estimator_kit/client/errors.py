"""What can go wrong in a request: rows that are no records, and what a server answers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RowError(ValueError):
    """A row that does not fit the spec; names the row, the feature and what was expected."""


class ServingError(RuntimeError):
    """A request that was not answered.

    Attributes:
      code: gRPC's name of what was wrong, as `NOT_FOUND`; over REST it is told from the status.
      message: what the server said.
    """

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`. Did you mean 'user'?` for the nearest known name, or the list where none is near."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, [n for n in names if n != name], n=1)
    if near:
        return f". Did you mean {near[0]!r}?"
    return f". Use one of: {', '.join(names)}." if names else ""
