"""Imports pyarrow when a table is first read, and turns its errors into messages about a file."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from typing import Any

from input_pipelines.errors import DataError, MissingPackageError


def arrow(part: str = "") -> Any:
    """The module `pyarrow`, or one of its parts: csv, json, parquet, compute.

    Raises:
      MissingPackageError: pyarrow is not installed.
    """
    name = f"pyarrow.{part}" if part else "pyarrow"
    # If a generator is abandoned, it ends during a garbage collection, which may run inside an
    # import. A second import could then wait forever. So a loaded module is not imported again,
    # unless another thread is still loading it.
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            "reading CSV, JSON lines and Parquet needs the package 'pyarrow'; "
            "install it with: pip install 'estimator-kit[tables]'"
        ) from error


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns pyarrow's errors about a file into a DataError that names the file."""
    errors = (arrow().ArrowException, OSError, UnicodeDecodeError)
    try:
        yield
    except errors as error:
        raise DataError(f"{path}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The first line of an error, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
