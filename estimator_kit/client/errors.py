"""The errors of a request: rows that cannot become records, and errors of a server."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RowError(ValueError):
    """A row does not fit the spec; the message names the row, the feature and what is expected."""


class ServingError(RuntimeError):
    """A server did not answer a request.

    Attributes:
      code: the gRPC code, for example `NOT_FOUND`; with REST it follows from the HTTP status.
      message: the message of the server.
    """

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """`. Did you mean 'user'?` for the nearest known name, or the list where none is near."""
    names = list(dict.fromkeys(known_names))
    near = difflib.get_close_matches(name, [n for n in names if n != name], n=1)
    if near:
        return f". Did you mean {near[0]!r}?"
    return f". Use one of: {', '.join(names)}." if names else ""
