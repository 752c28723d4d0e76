"""The columns of a log that becomes sequences, if the user does not name them.

    log_columns.items_of(["next_item_id"], names)      # "item_id", if it is a column
    log_columns.guessed("person", names, taken)        # "user_id"

Only names decide. This module reads nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Optional

from input_pipelines.prepare.analyze import roles
from input_pipelines.prepare.convert.options import NEXT

# Longer histories become several records. Most models learn little from older steps.
STEPS = 50


def items_of(labels: Sequence[str], names: Collection[str]) -> Optional[str]:
    """The column whose next value a label is; None if all labels are columns, or for other names.

    Args:
      labels: the labels of an analysis.
      names: the columns of the table.
    """
    for label in labels:
        name = label.removeprefix(NEXT)
        if label not in names and name != label and name in names:
            return name
    return None


def guessed(role: str, names: Sequence[str], taken: Collection[str]) -> Optional[str]:
    """The first column with the name of a `person` or `time`; None if no column has one."""
    return next((name for name in names if name not in taken and roles.named(role, name)), None)
