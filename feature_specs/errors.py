"""Errors of a feature spec, collected so that a user sees all of them at once.

A `Problem` is one thing wrong at one place; a `SpecError` carries every problem found in one
reading. Nothing here reads files or imports TensorFlow.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

Path = tuple[Union[str, int], ...]

_LONGEST_VALUE = 60


def path_text(path: Path) -> str:
    """`("columns", "a", 2)` as `columns.a[2]`; the empty path as `the top level`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the top level"


def value_text(value: Any) -> str:
    """A value as a message shows it: its `repr`, cut in the middle when it is long."""
    text = repr(value)
    if len(text) > _LONGEST_VALUE:
        half = _LONGEST_VALUE // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return text


def nearest(name: Any, known: Iterable[str], *, least: float = 0.6) -> str:
    """`. Did you mean 'user'?` for the nearest known name, or nothing below `least` likeness."""
    others = [other for other in known if other != name]
    near = difflib.get_close_matches(str(name), others, n=1, cutoff=least)
    return f". Did you mean {near[0]!r}?" if near else ""


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """As `nearest`, or the list of known names when none is near."""
    names = list(dict.fromkeys(known))
    return nearest(name, names) or (f". Use one of: {', '.join(names)}." if names else "")


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong at one place of a spec.

    Attributes:
      path: keys and list positions from the top of the document.
      message: what was got, what was expected and, when known, the remedy.
      line: one-based line in the file, or None when the spec is not from a file.
    """

    path: Path
    message: str
    line: Optional[int] = None

    def text(self, source: str) -> str:
        place = source if self.line is None else f"{source}:{self.line}"
        return f"{place}: {path_text(self.path)}: {self.message}"


def unknown(path: Path, name: str, what: str, known: Iterable[str]) -> Problem:
    """What is wrong with a name that leads nowhere, where `what` was expected."""
    return Problem(path, f"got {name!r}, expected {what}{did_you_mean(name, known)}")


def located(path: Path, message: str, lines: Mapping[Path, int]) -> Problem:
    """A problem with the line of its place, or of the nearest entry around it that has one."""
    place = path
    while place and place not in lines:
        place = place[:-1]
    return Problem(path, message, lines.get(place))


class SpecError(ValueError):
    """A feature spec that cannot be used; `problems` holds every reason, in document order."""

    def __init__(self, source: str, problems: Sequence[Problem]):
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda p: (p.line is None, p.line or 0)))
        count = len(self.problems)
        noun = "1 problem" if count == 1 else f"{count} problems"
        lines = [f"{source}: {noun} in the feature spec"]
        lines += [f"  {problem.text(source)}" for problem in self.problems]
        super().__init__("\n".join(lines))
