"""What is known of cells that are not equal to plain `tf.estimator`. Everything else must be equal.

`LINES` has a line for each reason: how the cells end, why, and the patterns (`fnmatch`) of their
ids. Lines that are not `accepted` are errors that are still to be mended, as of `DATE`. Whoever
mends one removes its line: a cell that ends otherwise than its line says makes the test fail.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Mapping
from typing import Optional

from tests.conformance.idioms.cell import Cell
from tests.conformance.idioms.run import (
    DIFFERS,
    EQUAL,
    IMPOSSIBLE,
    NAMED,
    REFUSED,
    Outcome,
)

DATE = "2026-11-26"

# How a cell may end for good.
ACCEPTABLE = {REFUSED, NAMED, IMPOSSIBLE}


@dataclasses.dataclass(frozen=True)
class Line:
    """Cells that do not give the numbers of plain `tf.estimator`.

    Attributes:
      kind: how they end; see `run`.
      reason: why.
      cells: the patterns of their ids.
      accepted: whether they may stay so. A refusal needs a technical reason.
    """

    kind: str
    reason: str
    cells: tuple[str, ...]
    accepted: bool = False


LINES: tuple[Line, ...] = (
    Line(
        DIFFERS,
        "variables that are only in TRAINABLE_RESOURCE_VARIABLES are not trained",
        ("collections/TRAINABLE_RESOURCE_VARIABLES",),
    ),
    Line(
        REFUSED,
        "a Saver in SAVERS writes other names, which no restart or warm start could read",
        ("collections/SAVERS",),
        accepted=True,
    ),
    Line(
        NAMED,
        "a hook ends the training before its last step, which `tf.estimator` reports as success",
        (
            "hooks/train.StopAtStepHook", "hooks/own: request_stop", "hooks/own: StopIteration",
            "hooks/own: OutOfRangeError",
        ),
        accepted=True,
    ),
    Line(
        IMPOSSIBLE,
        "an op that is made in `logits` does not initialize the variables that come later",
        ("collections/LOCAL_INIT_OP",),
        accepted=True,
    ),
    Line(
        IMPOSSIBLE,
        "the layer has no gradient",
        ("keras layers/RandomContrast",),
        accepted=True,
    ),
)  # fmt: skip


def line_of(name: str) -> Optional[Line]:
    """The line of a cell, or None if it must be equal."""
    for line in LINES:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in line.cells):
            return line
    return None


def problem(name: str, outcome: Outcome) -> Optional[str]:
    """What is wrong with the outcome of a cell, or None if it is as expected."""
    line = line_of(name)
    if outcome.kind == (EQUAL if line is None else line.kind):
        return None
    expected = "" if line is None else f" Remove it from the line {line.reason!r}."
    return f"{name} is {outcome.kind!r}. {outcome.text}{expected}"


def without_cells(names: Collection[str]) -> list[str]:
    """Patterns of the lines that fit no cell."""
    patterns = [pattern for line in LINES for pattern in line.cells]
    return [each for each in patterns if not fnmatch.filter(names, each)]


def markdown(cells: Mapping[str, Cell]) -> str:
    """The table of the documentation: a row for each family, then the cells that are not equal."""
    titles = {"equal": EQUAL, "refused by name": REFUSED, "ends by name": NAMED, "fails": "fails",
              "fails in tf.estimator, too": IMPOSSIBLE}  # fmt: skip
    rows = [f"| family | cells | {' | '.join(titles)} |", f"| --- {'| --- ' * 6}|"]
    for family in dict.fromkeys(cell.family for cell in cells.values()):
        kinds = [_shown(name) for name, cell in cells.items() if cell.family == family]
        counts = [kinds.count(kind) for kind in titles.values()]
        rows.append(f"| {family} | {len(kinds)} | {' | '.join(map(str, counts))} |")
    reasons = [f"| {line.kind} | {', '.join(f'`{each}`' for each in line.cells)} | {line.reason} |"
               for line in LINES]  # fmt: skip
    return "\n".join([*rows, "", "| how it ends | cells | why |", "| --- | --- | --- |", *reasons])


def _shown(name: str) -> str:
    line = line_of(name)
    if line is None:
        return EQUAL
    return line.kind if line.accepted or line.kind == IMPOSSIBLE else "fails"
