"""Compares the mean of a label in some records with the bounds of a spec."""

from __future__ import annotations

from typing import Optional

from feature_specs.sections.retraining import LabelRate
from feature_specs.statistics import Statistics


def rate_problem(label: str, rate: LabelRate, statistics: Statistics) -> Optional[str]:
    """What is wrong with the mean of a label, or None.

    Args:
      label: the name of the label.
      rate: the bounds.
      statistics: the statistics of the records.
    """
    found = statistics.features.get(label)
    if found is None or found.numbers is None:
        return f"label {label!r} has no value in {statistics.rows:,} records"
    mean = found.numbers.mean
    if rate.min is not None and mean < rate.min:
        return f"the mean of label {label!r} is {mean:.6g}, below min: {rate.min:g}"
    if rate.max is not None and mean > rate.max:
        return f"the mean of label {label!r} is {mean:.6g}, above max: {rate.max:g}"
    return None
