"""Errors of specs, files, folders and packages that a user can act on; how errors show values.

All mistakes of a spec are collected, so that a user sees them at once: a `Problem` is one mistake
at one place. A `SpecError` holds all problems that one reading found. This module never reads files
and does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

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


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 label`, `2,000 labels`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def nearest(name: Any, choices: Iterable[str], *, least: float = 0.6) -> str:
    """`. Did you mean 'user'?` for the nearest choice, or "" if no name is near enough."""
    others = [other for other in choices if other != name]
    near = difflib.get_close_matches(str(name), others, n=1, cutoff=least)
    return f". Did you mean {near[0]!r}?" if near else ""


def did_you_mean(name: Any, choices: Iterable[str]) -> str:
    """Like `nearest`, but lists the choices if none is near: `. Use one of: a, b.`"""
    names = list(dict.fromkeys(choices))
    return nearest(name, names) or (f". Use one of: {', '.join(names)}." if names else "")


@dataclasses.dataclass(frozen=True)
class Problem:
    """One mistake at one place of a spec.

    Attributes:
      path: the keys and list positions from the top of the document.
      message: the value, what was expected and, if known, the remedy.
      line: the line in the file, starting at 1, or None if the spec is not from a file.
    """

    path: Path
    message: str
    line: Optional[int] = None

    def text(self, source: str) -> str:
        place = source if self.line is None else f"{source}:{self.line}"
        return f"{place}: {path_text(self.path)}: {self.message}"


class ProblemError(Exception):
    """Ends the reading of one entry. The parser collects `problem`, and goes on."""

    def __init__(self, path: Path, message: str):
        super().__init__(message)
        self.problem = Problem(path, message)


def unknown(path: Path, name: str, what: str, choices: Iterable[str]) -> Problem:
    """The problem that a name does not exist. `what` says what was expected."""
    return Problem(path, f"got {name!r}, expected {what}{did_you_mean(name, choices)}")


def located(path: Path, message: str, lines: Mapping[Path, int]) -> Problem:
    """A problem with the line of its place, or of the nearest enclosing entry with a line."""
    place = path
    while place and place not in lines:
        place = place[:-1]
    return Problem(path, message, lines.get(place))


class SpecError(ValueError):
    """A feature spec that cannot be used. `problems` lists every reason, in document order."""

    def __init__(self, source: str, problems: Sequence[Problem]):
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda p: (p.line is None, p.line or 0)))
        lines = [f"{source}: {counted(len(self.problems), 'problem')} in the feature spec"]
        lines += [f"  {problem.text(source)}" for problem in self.problems]
        super().__init__("\n".join(lines))
