"""Makes the report of a first spec for the console: at most about 20 lines, the loudest first.

Each decision that is not obvious is one line, with its reason and the flag that changes
it. If many features have the same kind of decision, they share a line. What does not fit is
counted, and the comments of the spec have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from input_pipelines.prepare.analyze.columns import CANNOT_NAME, Choice
from input_pipelines.prepare.analyze.decisions import Decisions

# Why the id of a group of rows has no column.
IS_GROUP = "it names the group of a row, and models do not read it"

_LINES = 18
_ALONE = 3  # This many features have their own lines, if they share a kind of decision.
_NAMES = 12

# Notes about columns of tables that many columns may have, and the text for several columns.
_SHARED = (
    (": float32, because ", "float32, because some values are not integers"),
    (": text, because ", "text, because some values are not numbers, or would lose digits"),
    (": missing values: ", "quoted fields without a number are missing values"),
    (", rounded to a float32", "some values are rounded to a float32"),
    (", stored as 0", "some values are too close to 0 for a float32"),
)


def lines(
    choices: Mapping[str, Choice],
    decisions: Decisions,
    notes: Sequence[str],
    warnings: Sequence[str] = (),
) -> list[str]:
    """The lines below the heading.

    Args:
      choices: the choices by feature.
      decisions: the decisions behind them.
      notes: notes about how columns of tables were read.
      warnings: what a user must know of the labels.
    """
    leaks = [name for name, c in choices.items() if name in decisions.leaks]
    ignored = {n: c for n, c in choices.items() if not c.columns and n not in leaks}
    loud = [f"  WARNING: {warning}" for warning in warnings]
    loud += [
        f"  WARNING: {name} is ignored: {choices[name].why}"
        if not choices[name].columns
        else f"  WARNING: {name} may give a label away: {decisions.leaks[name]}; it is used, "
        "because nothing else could be"
        for name in leaks
    ]
    loud += [
        f"  {name} is used, but check it: {why} (override: --ignore={name})"
        for name, why in decisions.suspected.items()
        if choices[name].columns
    ]
    parts = [loud, _ignored(ignored), _kinds(choices, decisions), _notes(notes)]
    result: list[str] = []
    hidden = 0
    for i, part in enumerate(parts):
        room = max(_LINES - len(result) - sum(bool(other) for other in parts[i + 1 :]), 1)
        result += part[:room]
        hidden += len(part[room:])
    if hidden:
        more = "more line is" if hidden == 1 else "more lines are"
        result.append(f"  {hidden} {more} left out here: see the comments of the spec")
    return result


def _ignored(choices: Mapping[str, Choice]) -> list[str]:
    result = []
    for name, choice in choices.items():
        what = "left out" if choice.feature is None else "ignored"
        what = "no column" if choice.why == IS_GROUP else what
        what = "WARNING: left out" if choice.why == CANNOT_NAME else what
        result.append(f"  {what}: {name}: {choice.why}")
    return result


def _kinds(choices: Mapping[str, Choice], decisions: Decisions) -> list[str]:
    by_rule: dict[tuple[str, str], list[str]] = {}
    result = []
    for name, kind in decisions.kinds.items():
        if choices[name].time is not None and choices[name].columns:
            parts = ", ".join(choices[name].wide)
            result.append(
                f"  {name}: {parts}, because {choices[name].columns[0].why} "
                f"(override: --{'categorical' if kind.category else 'numeric'}={name})"
            )
        elif kind.report and choices[name].columns:
            by_rule.setdefault((kind.text, kind.rule), []).append(name)
    for (text, rule), names in by_rule.items():
        if len(names) <= _ALONE:
            for name in names:
                kind = decisions.kinds[name]
                by = f" (override: {kind.override})" if kind.override else ""
                result.append(f"  {name}: {text}, {kind.why}{by}")
        else:
            flag = decisions.kinds[names[0]].override.partition("=")[0]
            by = f" (override: {flag}=...)" if flag else ""
            result.append(f"  {_listed(names)}: {text}, {rule}{by}")
    return result


def _notes(notes: Sequence[str]) -> list[str]:
    of_kind: dict[str, list[str]] = {}
    for note in notes:
        what = next((what for part, what in _SHARED if part in note), note)
        of_kind.setdefault(what, []).append(note)
    result = []
    for what, several in of_kind.items():
        if len(several) <= _ALONE:
            result += [f"  note: {note}" for note in several]
        else:
            names = [note.partition(": ")[0] for note in several]
            result.append(f"  note: {_listed(names)}: {what}")
    return result


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    text = ", ".join(names[:_NAMES])
    return f"{text} and {more} more" if more > 0 else text
