"""Reads a YAML or JSON document into plain values, with the line of each value.

Scalars follow the YAML 1.2 core schema: `no` is a string, `1e-3` is a float, and `010` is the
integer ten. (YAML 1.1, PyYAML's default, reads False, a string and eight.) JSON is a subset of
YAML. The reader returns only None, bool, int, float, str, list and dict. It rejects aliases, merge
keys and tags, so that a small document cannot become a large value. It also rejects documents of
more than 2 MiB or more than 50 levels, and does so before it reads them to the end.

    values, lines = read_text("a: [1, 2]", "spec.yaml")   # lines[("a", 1)] == 1
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator
from typing import Any

import yaml

from feature_specs.errors import Path, Problem, SpecError, value_text

Lines = dict[Path, int]

_DEEPEST = 50
# `_Converter` reports one level less, with its path.
_DEEPEST_EVENT = _DEEPEST + 2

# The YAML parser needs seconds for a MB, and longer for nested brackets.
LONGEST = 2 * 2**20
_TAGGED = (yaml.ScalarEvent, yaml.SequenceStartEvent, yaml.MappingStartEvent)


class _Refused(Exception):
    """The document has a part that `_refused_parts` finds."""


class _CoreSchemaLoader(yaml.SafeLoader):
    """A SafeLoader with the implicit types of the YAML 1.2 core schema.

    It raises `_Refused` at the first rejected part, before it makes a node of it.
    """

    depth = 0

    def get_event(self) -> Any:
        event = super().get_event()  # type: ignore[no-untyped-call]
        self.depth += _step(event)
        if self.depth > _DEEPEST_EVENT or next(_refused(event), None) is not None:
            raise _Refused
        return event


_CoreSchemaLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        list("-+0123456789."),
    ),
):
    _CoreSchemaLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^{_pattern}$"), _first
    )


def _scalar(node: yaml.ScalarNode) -> Any:
    kind = node.tag.rpartition(":")[2]
    text = node.value
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        return int(text)
    if kind == "float":
        lowered = text.lower()
        return float(lowered.replace(".", "") if lowered.endswith(("inf", "nan")) else lowered)
    # JSON writes a character above U+FFFF as a surrogate pair. Join its two halves.
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("the string contains half of a surrogate pair") from None


class _Converter:
    """Turns a tree of YAML nodes into plain values. Records lines and problems."""

    def __init__(self) -> None:
        self.lines: Lines = {}
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node, path: Path) -> Any:
        line = node.start_mark.line + 1
        self.lines.setdefault(path, line)
        if len(path) > _DEEPEST:
            self._problem(path[:3], line, f"nested more than {_DEEPEST} levels deep")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(node, path, line)

    def _scalar(self, node: yaml.Node, path: Path, line: int) -> Any:
        assert isinstance(node, yaml.ScalarNode)
        try:
            return _scalar(node)
        except ValueError as error:
            self._problem(path, line, f"cannot be read as its type: {error}")
            return None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                kind = "mapping" if isinstance(key_node, yaml.MappingNode) else "list"
                self._problem(path, line, f"a {kind} cannot be a key. Write a string.")
                continue
            problems = len(self.problems)
            key = self._scalar(key_node, path, line)
            if len(self.problems) > problems:
                continue
            if not isinstance(key, str):
                self._problem(
                    path,
                    line,
                    f"the key must be a string, got {value_text(key)}. Put it in quotes.",
                )
            elif key == "<<" and key_node.style is None:
                self._problem(path, line, "a merge key (<<) is not supported. Write the keys out.")
            elif key in result:
                first = self.lines[(*path, key)]
                self._problem(
                    (*path, key), line, f"the key is listed twice, first on line {first}. Keep one."
                )
            else:
                self.lines[(*path, key)] = line
                result[key] = self.value(value_node, (*path, key))
        return result

    def _problem(self, path: Path, line: int, message: str) -> None:
        self.problems.append(Problem(path, message, line))


def _node(text: str, source: str) -> Any:
    """The document, or None if it is empty.

    Raises:
      SpecError: lists all rejected parts.
      yaml.YAMLError: the text is not YAML.
    """
    try:
        return yaml.compose(text, Loader=_CoreSchemaLoader)
    except (_Refused, yaml.YAMLError) as error:
        problems = list(_refused_parts(text))  # All of them, up to a part that is not YAML.
        if problems:
            raise SpecError(source, problems) from error
        raise


def _refused_parts(text: str) -> Iterator[Problem]:
    """The rejected parts of YAML in a text, up to the first place that is nested too deeply."""
    depth = 0
    for event in yaml.parse(text):
        yield from _refused(event)
        depth += _step(event)
        if depth > _DEEPEST_EVENT and event.start_mark is not None:
            line = event.start_mark.line + 1
            yield Problem((), f"nested more than {_DEEPEST} levels deep", line)
            return


def _step(event: yaml.Event) -> int:
    """How much deeper the next event is."""
    if isinstance(event, yaml.CollectionStartEvent):
        return 1
    return -1 if isinstance(event, yaml.CollectionEndEvent) else 0


def _refused(event: yaml.Event) -> Iterator[Problem]:
    """The rejected parts of YAML in an event, before any value is made."""
    if isinstance(event, yaml.AliasEvent):
        message = "an alias (*name) is not supported. Write the value out."
    elif isinstance(event, _TAGGED) and event.tag is not None:
        message = f"the tag {event.tag!r} is not supported. Remove it."
    else:
        return
    assert event.start_mark is not None  # only synthetic events have none
    yield Problem((), message, event.start_mark.line + 1)


def too_long(got: str) -> str:
    """The message for a document that is too long."""
    return (
        f"got {got}, expected at most {LONGEST:,}. Write long lists, such as vocabularies, into "
        "separate files."
    )


def read_text(text: str, source: str) -> tuple[Any, Lines]:
    """Returns the document as plain values, and the line of each path, starting at 1.

    A text that was read before is not parsed again.

    Args:
      text: one YAML or JSON document.
      source: the name of the document in error messages, usually the path of the file.

    Raises:
      SpecError: the text is not YAML, is too long or too deep, or uses a rejected part of YAML.
    """
    value, lines = _read(text, source)
    return copy.deepcopy(value), dict(lines)


# A run reads its spec in each of its stages, and stored copies of it.
@functools.lru_cache(16)
def _read(text: str, source: str) -> tuple[Any, Lines]:
    """As `read_text`; nobody may change what it returns."""
    if len(text) > LONGEST:
        raise SpecError(source, [Problem((), too_long(f"{len(text):,} characters"))])
    try:
        node = _node(text, source)
    except SpecError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        if "'\\t'" in reason:
            reason += ". Indent with spaces, not with tabs."
        raise SpecError(source, [Problem((), f"not YAML: {reason}", line)]) from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise SpecError(source, [Problem((), f"not YAML: {reason}")]) from error
    if node is None:
        return None, {}
    converter = _Converter()
    value = converter.value(node, ())
    if converter.problems:
        raise SpecError(source, converter.problems)
    return value, converter.lines
