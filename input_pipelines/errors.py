"""Errors of input data, as users see them."""

from __future__ import annotations

import re


class DataError(ValueError):
    """Records or files that cannot be trained on; names the file, the record and the feature."""


class MissingPackageError(ImportError):
    """An optional package that is not installed; the message says how to install it."""


def message_of(error: Exception) -> str:
    """TensorFlow's own words, of one of `BAD_RECORD_ERRORS` or another error of TensorFlow."""
    if isinstance(error, UnicodeDecodeError):
        return bytes(error.object).decode("utf-8", "replace")
    return getattr(error, "message", None) or str(error)


def first_line(error: Exception) -> str:
    """What a TensorFlow error says, without the node and the op that it puts around it."""
    lines = [line.strip() for line in message_of(error).strip().splitlines()]
    # Of an error inside of a function, the stack comes first, and the node behind the sentence.
    node = next((i for i, line in enumerate(lines) if line.startswith("[[{{node")), 0)
    text = lines[max(node - 1, 0)]
    return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\].*$", "", text).strip()
