"""Errors of input data, as users see them; and how many cores this process may use."""

from __future__ import annotations

import os
import re

from feature_specs.errors import MissingPackageError

__all__ = ["DataError", "MissingPackageError", "first_line", "message_of", "unreadable"]


class DataError(ValueError):
    """Records or files that cannot be used. The message names the file, record and feature."""


def message_of(error: Exception) -> str:
    """The original message of one of `BAD_RECORD_ERRORS` or another TensorFlow error."""
    if isinstance(error, UnicodeDecodeError):
        return bytes(error.object).decode("utf-8", "replace")
    return getattr(error, "message", None) or str(error)


def unreadable(error: Exception) -> str:
    """Why a file cannot be read, without its path: an error of the system, a store or a text."""
    if isinstance(error, UnicodeDecodeError):
        return str(error)
    return getattr(error, "strerror", None) or first_line(error)


def first_line(error: Exception) -> str:
    """The sentence of a TensorFlow error, without the node and op that TensorFlow adds to it."""
    lines = [line.strip() for line in message_of(error).strip().splitlines()]
    # In an error inside a function, the stack comes first and the node comes after the sentence.
    node = next((i for i, line in enumerate(lines) if line.startswith("[[{{node")), 0)
    text = lines[max(node - 1, 0)]
    return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\].*$", "", text).strip()


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
