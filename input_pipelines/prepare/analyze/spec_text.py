"""Writes the YAML text of a first spec, with a comment on every choice.

    # 0 to 4,000, mean 37.1, stddev 55; about 2,100 different values; a long tail to the right ...
    price_scaled: {numeric: price, normalizer: log1p}

Entries are JSON inside YAML, so names and words are quoted correctly. Only characters that cannot
be printed are escaped. This module only makes text.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from input_pipelines.prepare.analyze.columns import Choice, Entry

_WIDTH = 98
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NOT_TEXT = {"true", "false", "null"}


def spec_text(
    choices: Mapping[str, Choice],
    labels: Sequence[tuple[Entry, Entry]],
    *,
    heading: str,
    drift: Optional[Mapping[str, Any]] = None,
    step_groups: Sequence[Sequence[str]] = (),
    tables: Optional[Mapping[str, Any]] = None,
    more_groups: Mapping[str, tuple[Sequence[str], str]] = {},
) -> str:
    """A spec document.

    Args:
      choices: the choices by feature.
      labels: each label's entries under `labels` and `objectives`.
      heading: the comment at the top.
      drift: names with their thresholds, under `features` and `labels`.
      step_groups: names of feature lists. Lists with equal lengths in every record form a group.
      tables: how CSV files are written, by the names of the flags.
      more_groups: other groups, each with its columns and its comment.
    """
    used = [choice for choice in choices.values() if choice.feature is not None]
    lines = [*_comment(heading, 0), ""]
    lines += _section("features", (choice.feature for choice in used if choice.feature))
    for name, choice in choices.items():
        if choice.feature is None:
            lines += _comment(f"left out: {_quoted(name)}: {choice.why}", 2)
    lines += ["", *_section("columns", (c for choice in used for c in choice.columns))]
    lines += ["", "groups:"]
    for group, why in (
        ("wide", "what a linear model reads: categories and buckets"),
        ("deep", "what a neural network reads: scaled numbers and embeddings"),
        ("fields", "what fm, deepfm, xdeepfm and autoint read: embeddings of one dimension"),
    ):
        names = [name for choice in used for name in getattr(choice, group)]
        if names:
            lines += [*_comment(why, 2), *_list(group, names)]
    for group, (columns, why) in more_groups.items():
        lines += [*_comment(why, 2), *_list(group, columns)]
    number = 0
    for members in step_groups:
        names = [column for n in members if n in choices for column in choices[n].steps]
        if names:
            number += 1
            why = (
                "steps in order, from lists with equal lengths in every record; custom models "
                "read them with self.sequence_input"
            )
            group = "steps" if number == 1 else f"steps_{number}"
            lines += [*_comment(why, 2), *_list(group, names)]
    lines += ["", *_section("labels", (label for label, _ in labels))]
    lines += ["", *_section("objectives", (objective for _, objective in labels))]
    ignored = [choice for choice in used if choice.ignored]
    if ignored:
        lines += ["", "ignored:"]
        for choice in ignored:
            assert choice.feature is not None
            lines += [*_comment(choice.why, 2), f"  - {_scalar(choice.feature.name)}"]
    if drift:
        lines += ["", "drift:"]
        for section, entries in drift.items():
            lines.append(f"  {section}:")
            lines += [f"    {_scalar(name)}: {_flow(value)}" for name, value in entries.items()]
    if tables:
        why = "how the CSV files are written; conversion and prediction read them in this way"
        lines += ["", *_comment(why, 0), "tables:"]
        lines += [f"  {name}: {_flow(value)}" for name, value in tables.items()]
    return "\n".join(lines) + "\n"


def _section(name: str, entries: Iterable[Entry]) -> list[str]:
    lines = [f"{name}:"]
    for entry in entries:
        lines += _comment(entry.why, 2)
        lines.append(f"  {_scalar(entry.name)}: {_flow(entry.value)}")
    return lines


def _list(name: str, items: Sequence[str]) -> list[str]:
    text = ", ".join(map(_scalar, items))
    wrapped = textwrap.wrap(text, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return [f"  {name}: [", *(f"    {line}" for line in wrapped), "  ]"]


def _comment(text: str, indent: int) -> list[str]:
    prefix = " " * indent + "# "
    lines: list[str] = []
    for part in text.split("\n") if text else []:
        # Wrap only at spaces, and replace control characters: a word may contain anything.
        clean = "".join(c if c.isprintable() else "?" for c in part)
        lines += textwrap.wrap(
            clean,
            _WIDTH,
            initial_indent=prefix,
            subsequent_indent=prefix,
            break_long_words=False,
            break_on_hyphens=False,
        ) or ["#"]
    return lines


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT else _quoted(text)


def _quoted(text: str) -> str:
    # JSON does not escape some characters that YAML refuses or treats as the end of a line.
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in plain)


def _flow(value: Any) -> str:
    """A value in YAML's flow style, with JSON strings where quotes are needed."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value)
