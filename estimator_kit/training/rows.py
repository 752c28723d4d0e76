"""What a training says of its rows: which a selection has kept, and that some did not come."""

from __future__ import annotations

from typing import Optional

from estimator_kit.training.plan import Plan
from estimator_kit.training.records import summary
from estimator_kit.training.source import TrainingInput
from input_pipelines.errors import DataError
from input_pipelines.reading.selection import RowCounts


def selected_rows(
    source: TrainingInput, plan: Plan, evaluated: Optional[RowCounts]
) -> dict[str, dict[str, int]]:
    selected = {}
    if source.must_be_counted and plan.selected:
        selected["train"] = summary(plan.selected)
    if evaluated is not None:
        selected["eval"] = summary([evaluated])
    return selected


def fewer_than_counted(
    source: TrainingInput, plan: Plan, lost: int, step: int, changes: list[str]
) -> DataError:
    """The error of files that held fewer rows than when they were counted.

    Args:
      source, plan: of the training.
      lost: how many rows.
      step: where training ended.
      changes: what became of the files, as of `TrainingInput.changed_files`.
    """
    return DataError(
        f"the training files had {lost:,} rows less than were counted at the start "
        f"({plan.rows or 0:,}): {'; '.join(changes) or 'none has another size or time now'}. "
        f"The model is trained to step {step} of {plan.max_steps}; leave files alone while "
        "they are read, and start again"
    )
