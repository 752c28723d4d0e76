"""Errors of input data, as users see them."""

from __future__ import annotations


class DataError(ValueError):
    """Records or files that cannot be trained on; names the file, the record and the feature."""


class MissingPackageError(ImportError):
    """An optional package that is not installed; the message says how to install it."""
