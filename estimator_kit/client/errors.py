"""What can go wrong in a request: rows that are no records, and what a server answers."""

from __future__ import annotations


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
