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

import numpy as np

from tests.conformance.idioms.cell import Cell
from tests.conformance.idioms.run import (
    CRASHED,
    DIFFERS,
    EQUAL,
    IMPOSSIBLE,
    LATE,
    REFUSED,
    Outcome,
)

DATE = "2026-11-26"


@dataclasses.dataclass(frozen=True)
class Line:
    """Cells that do not give the numbers of plain `tf.estimator`.

    Attributes:
      kind: how they end; see `run`.
      reason: why.
      cells: the patterns of their ids.
      only_with_numpy_2: whether they are equal with NumPy 1, which TensorFlow 2.15 has.
      accepted: whether they may stay so. A refusal needs a technical reason.
    """

    kind: str
    reason: str
    cells: tuple[str, ...]
    only_with_numpy_2: bool = False
    accepted: bool = False


LINES: tuple[Line, ...] = (
    Line(
        DIFFERS,
        "the collection LOSSES is not read: a loss of tf.compat.v1.losses in `logits` is dropped",
        ("losses/* in logits", "collections/LOSSES"),
    ),
    Line(
        CRASHED,
        "places/input_places.py evaluates a part of the graph of a metric that is not an array",
        (
            "metrics/auc*", "metrics/precision_at_thresholds*", "metrics/recall_at_thresholds*",
            "metrics/sensitivity_at_specificity*", "metrics/specificity_at_sensitivity*",
        ),
        only_with_numpy_2=True,
    ),
    Line(
        CRASHED,
        "checkpoints/reading.py reads SAVEABLE_OBJECTS as if only the kit had made tables",
        ("tables/experimental.*",),
    ),
    Line(
        DIFFERS,
        "variables that are only in TRAINABLE_RESOURCE_VARIABLES are not trained",
        ("collections/TRAINABLE_RESOURCE_VARIABLES",),
    ),
    Line(
        LATE,
        "a Saver in SAVERS writes other names, and the check of a restart compares names",
        ("collections/SAVERS",),
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
        CRASHED,
        "places/input_places.py evaluates a part of the graph of a metric with `sample_weight`",
        (
            "keras metrics/AUC weighted",
            "keras metrics/Accuracy weighted",
            "keras metrics/BinaryAccuracy weighted",
            "keras metrics/False* weighted",
            "keras metrics/MeanRelativeError weighted",
            "keras metrics/Precision weighted",
            "keras metrics/PrecisionAtRecall weighted",
            "keras metrics/Recall weighted",
            "keras metrics/RecallAtPrecision weighted",
            "keras metrics/RootMeanSquaredError weighted",
            "keras metrics/SensitivityAtSpecificity weighted",
            "keras metrics/SparseCategoricalAccuracy weighted",
            "keras metrics/SparseTopKCategoricalAccuracy weighted",
            "keras metrics/SpecificityAtSensitivity weighted",
            "keras metrics/True* weighted",
        ),
        only_with_numpy_2=True,
    ),
    Line(
        DIFFERS,
        "a training that a hook ends reports `done, max_steps`",
        (
            "hooks/train.StopAtStepHook", "hooks/own: request_stop", "hooks/own: StopIteration",
            "hooks/own: OutOfRangeError",
        ),
    ),
    Line(
        CRASHED,
        "after a mask, self.keras calls a layer with `mask`, which its `call` does not take",
        (
            "keras masks/Activation", "keras masks/Conv1D", "keras masks/Dense",
            "keras masks/Dropout", "keras masks/LayerNormalization",
            "keras masks/MultiHeadAttention",
        ),
    ),
    Line(
        REFUSED,
        "the update op of a metric is a variable, `v.assign_add(x)`, which `metrics` does not take",
        (
            "metrics/false_negatives*", "metrics/false_positives*", "metrics/true_negatives*",
            "metrics/true_positives*", "metrics/mean_iou*",
        ),
    ),
)  # fmt: skip


def line_of(name: str) -> Optional[Line]:
    """The line of a cell, or None if it must be equal."""
    for line in LINES:
        if line.only_with_numpy_2 and np.__version__.startswith("1."):
            continue
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
    titles = {"equal": EQUAL, "refused by name": REFUSED, "fails": "fails",
              "fails in tf.estimator, too": IMPOSSIBLE}  # fmt: skip
    rows = [f"| family | cells | {' | '.join(titles)} |", f"| --- {'| --- ' * 5}|"]
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


# How a cell may end for good.
ACCEPTABLE = {REFUSED, IMPOSSIBLE}
