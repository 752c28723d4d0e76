"""`RequestError`: an error of a request with a gRPC code, from which the HTTP status follows.

The codes and the table are the same as in TensorFlow Serving. The messages are the kit's own.
"""

from __future__ import annotations

from collections.abc import Iterable

# gRPC's codes by number. TensorFlow uses the same numbers.
CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)

HTTP = {
    "OK": "200 OK",
    "CANCELLED": "499 Client Closed Request",
    "UNKNOWN": "500 Internal Server Error",
    "INVALID_ARGUMENT": "400 Bad Request",
    "DEADLINE_EXCEEDED": "504 Gateway Timeout",
    "NOT_FOUND": "404 Not Found",
    "ALREADY_EXISTS": "409 Conflict",
    "PERMISSION_DENIED": "403 Forbidden",
    "RESOURCE_EXHAUSTED": "429 Too Many Requests",
    "FAILED_PRECONDITION": "400 Bad Request",
    "ABORTED": "409 Conflict",
    "OUT_OF_RANGE": "400 Bad Request",
    "UNIMPLEMENTED": "501 Not Implemented",
    "INTERNAL": "500 Internal Server Error",
    "UNAVAILABLE": "503 Service Unavailable",
    "DATA_LOSS": "500 Internal Server Error",
    "UNAUTHENTICATED": "401 Unauthorized",
}

# gRPC allows 8 KiB for all metadata, where each byte that is not ASCII takes three.
_MOST_BYTES = 2048


class RequestError(Exception):
    """A request that is answered with an error.

    Attributes:
      code: one of `CODES`.
      message: the message for the client.
    """

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


def invalid(message: str) -> RequestError:
    """The error of an invalid request."""
    return RequestError("INVALID_ARGUMENT", message)


def check_names(place: str, names: Iterable[str], expected: Iterable[str]) -> None:
    """Raises the error of a place that has other names than those that are expected."""
    if set(names) != set(expected):
        raise invalid(f"{place}: expected the names {_listed(expected)}, got {_listed(names)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def shortened(message: str) -> str:
    """A message that fits into an answer. gRPC replaces longer ones by another error."""
    data = message.encode("utf-8", "replace")
    if len(data) <= _MOST_BYTES:
        return message
    return f"{data[: _MOST_BYTES - 3].decode('utf-8', 'ignore')}..."
