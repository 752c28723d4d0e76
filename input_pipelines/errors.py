"""Errors of input data, as users see them."""

from __future__ import annotations


class DataError(ValueError):
    """Records or files that cannot be trained on; names the file, the record and the feature."""
