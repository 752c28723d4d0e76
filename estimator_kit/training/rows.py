"""What a training reports about its rows: how many were selected, and that some are missing."""

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
    """The error for files that had fewer rows than at the start.

    Args:
      source, plan: the input and the plan of the training.
      lost: how many rows were missing.
      step: the global step at which training ended.
      changes: the result of `TrainingInput.changed_files`.
    """
    if source.function is not None:
        return DataError(
            f"{source.function.place}: gave {lost:,} rows fewer than when they were counted "
            f"({plan.rows or 0:,}). The model is trained to step {step} of {plan.max_steps}. Give "
            "the same rows in each call"
        )
    return DataError(
        f"the training files had {lost:,} rows fewer than at the start, when they had "
        f"{plan.rows or 0:,}: {'; '.join(changes) or 'no file changed its size or time'}. "
        f"The model is trained to step {step} of {plan.max_steps}. "
        "Start again, and do not change files while they are read."
    )
