"""Errors of files, folders and packages that a user can act on, and how errors show values."""

from __future__ import annotations

from typing import Any, Union

Path = tuple[Union[str, int], ...]

_LONGEST_VALUE = 60


class ConfigError(ValueError):
    """A flag, flagfile, parameter, model or file of a run cannot be used."""


class Locked(Exception):
    """Another process is working in the same folder."""


class MissingPackageError(ImportError):
    """An optional package is not installed. The message says how to install it."""


def path_text(path: Path) -> str:
    """Formats `("columns", "a", 2)` as `columns.a[2]`, and the empty path as `the top level`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the top level"


def value_text(value: Any) -> str:
    """The `repr` of a value for a message. A long one is shortened in the middle."""
    text = repr(value)
    if len(text) > _LONGEST_VALUE:
        half = _LONGEST_VALUE // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return text
