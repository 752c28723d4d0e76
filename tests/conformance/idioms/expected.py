"""What is known of cells that are not equal to plain `tf.estimator`. Everything else must be equal.

`LINES` has a line for each reason: how the cells end, why, and the patterns (`fnmatch`) of their
ids. `page` prints it for the documentation. Lines that are not `accepted` are errors that are still
to be mended, as of `DATE`. Whoever mends one removes its line: a cell that ends otherwise than its
line says makes the test fail.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection
from typing import Optional

import tensorflow as tf

from tests.conformance.idioms.run import (
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
      only_on: the release of TensorFlow where they end so, such as 2.15; empty for all releases.
    """

    kind: str
    reason: str
    cells: tuple[str, ...]
    accepted: bool = False
    only_on: str = ""


LINES: tuple[Line, ...] = (
    Line(
        REFUSED,
        "a Saver in SAVERS writes other names, which no restart or warm start could read",
        ("collections/SAVERS",),
        accepted=True,
    ),
    Line(
        REFUSED,
        "it replaces what a session does for all variables; the method `scaffold` can return it",
        ("collections/READY_FOR_LOCAL_INIT_OP", "collections/READY_OP"),
        accepted=True,
    ),
    Line(
        REFUSED,
        "it replaces the summaries of the kit and of other code; SUMMARIES adds to them",
        ("collections/SUMMARY_OP",),
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
    Line(
        IMPOSSIBLE,
        "on TensorFlow 2.15, the layer asks `if` of a tensor, which no graph can",
        ("keras layers/SpectralNormalization",),
        accepted=True,
        only_on="2.15",
    ),
)  # fmt: skip


def line_of(name: str, version: str = tf.__version__) -> Optional[Line]:
    """The line of a cell on a version of TensorFlow, or None if it must be equal."""
    for line in LINES:
        if version.startswith(line.only_on) and any(
            fnmatch.fnmatchcase(name, pattern) for pattern in line.cells
        ):
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
