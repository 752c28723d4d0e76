"""Docstrings as Markdown: their summary, their text, and what they say of each attribute.

    text = Docstring.of(Embedding)
    text.summary, text.body, text.attributes["dimension"]

A section starts with `Attributes:`, `Args:`, `Returns:` or `Raises:`. An entry of `Attributes` is
`name: text` or `name, name: text`; further lines of it are indented.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Optional

_SECTION = re.compile(r"^(Attributes|Args|Returns|Raises|Yields)(?: \(.*\))?:$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+(?:, \w+)*): +(.*)$", re.DOTALL)
_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Docstring:
    """One docstring.

    Attributes:
      summary: its first sentence or sentences, on one line; "" if it starts with a section.
      body: what is between the summary and the first section.
      attributes: what the section `Attributes` says of each name, on one line.
    """

    summary: str
    body: str
    attributes: Mapping[str, str]

    @classmethod
    def parse(cls, text: Optional[str]) -> Docstring:
        text = inspect.cleandoc(text or "")
        parts = _SECTION.split(text)
        summary, _, body = parts[0].partition("\n\n")
        attributes: dict[str, str] = {}
        for name, entries in zip(parts[1::2], parts[2::2]):
            if name == "Attributes":
                attributes.update(_entries(entries))
        return cls(one_line(summary), body.strip("\n"), attributes)

    @classmethod
    def of(cls, documented: type) -> Docstring:
        """The docstring of a class; an inherited one does not count."""
        return cls.parse(vars(documented).get("__doc__"))

    def markdown(self) -> str:
        """Summary and body."""
        return "\n\n".join(part for part in (escaped(self.summary), escaped(self.body)) if part)


def _entries(text: str) -> dict[str, str]:
    lines = [line for line in text.strip("\n").splitlines() if line.strip()]
    if not lines:
        return {}
    first = min(len(line) - len(line.lstrip()) for line in lines)
    entries: list[list[str]] = []
    for line in lines:
        if len(line) - len(line.lstrip()) == first:
            entries.append([])
        entries[-1].append(line)
    found = {}
    for entry in entries:
        match = _ENTRY.match(one_line(" ".join(entry)))
        if match is None:
            raise ValueError(f"expected `name: text` in a section Attributes, got {entry[0]!r}")
        found.update(dict.fromkeys(match[1].split(", "), match[2]))
    return found


def one_line(text: str) -> str:
    return " ".join(text.split())


def escaped(text: str) -> str:
    """Text of a docstring as Markdown: `<`, `*`, `[` and `_` mean themselves.

    Code in backticks and indented blocks stay as they are.
    """
    pieces: list[str] = []
    prose: list[str] = []
    for line, block in [*_blocks(text.splitlines()), ("", True)]:
        if not block:
            prose.append(line)
            continue
        if prose:
            pieces.append(_escaped_prose("\n".join(prose)))
            prose = []
        pieces.append(line)
    return "\n".join(pieces[:-1])


def _blocks(lines: list[str]) -> list[tuple[str, bool]]:
    """Each line, and whether it is part of an indented block."""
    found, block = [], False
    for i, line in enumerate(lines):
        if not line.startswith("    ") and line.strip():
            block = False
        elif line.startswith("    ") and (i == 0 or not lines[i - 1].strip()):
            block = True
        found.append((line, block and bool(line.strip())))
    return found


def _escaped_prose(text: str) -> str:
    parts = _CODE.split(text)
    text = "".join(
        part if i % 2 else re.sub(r"([*<\[\\]|(?<!\w)_|_(?!\w))", r"\\\1", part)
        for i, part in enumerate(parts)
    )
    return re.sub(r"^(\d+)\.(?=\s|$)", r"\1\\.", text, flags=re.MULTILINE)  # It starts no list.


def cell(text: str) -> str:
    """Markdown for one cell of a table."""
    return one_line(text).replace("|", r"\|")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell(text) for text in line) + " |" for line in lines)


def code(value: object) -> str:
    """Inline code, also with backticks in it."""
    text = str(value)
    return f"`` {text} ``" if "`" in text else f"`{text}`"
