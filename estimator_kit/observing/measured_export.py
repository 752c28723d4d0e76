"""What is measured of the export of a training: `slices.json`, `importance.json`, `flops.json`.

    Slices.load(path_of("runs/ads", "slices.json"))

`scoring` writes them into `observed/`; the report page reads them. An undefined number is None.
"""

from __future__ import annotations

import os
from typing import Optional

from feature_specs.files import documents


class Overall(documents.Part):
    """The metric of all rows."""

    value: Optional[float]
    rows: int


class Slice(documents.Part):
    """The metric of the rows with one value of a feature; `low` and `high` bound 95 %."""

    feature: str
    value: str
    rows: int
    metric: Optional[float]
    low: Optional[float]
    high: Optional[float]


class ObjectiveSlices(documents.Part):
    """The slices of an objective; `left_out` has the rows with other values, by feature."""

    metric: str
    overall: Overall
    slices: list[Slice]
    left_out: dict[str, int]


class Slices(documents.Document):
    """`slices.json`."""

    objectives: dict[str, ObjectiveSlices]


class Worth(documents.Part):
    """How much worse a metric gets on average, and its standard deviation over the repeats."""

    mean: Optional[float]
    spread: Optional[float]

    @property
    def values(self) -> Optional[tuple[float, float]]:
        """Both; None if they are undefined, for example if the rows have no positive one."""
        return None if self.mean is None or self.spread is None else (self.mean, self.spread)


class Importance(documents.Document):
    """`importance.json`: the metric by objective, and the worth by feature and objective.

    Features that move together have one entry, such as `tags, tag_weight`.
    """

    rows: int
    repeats: int
    metrics: dict[str, str]
    features: dict[str, dict[str, Worth]]


class Flops(documents.Document):
    """`flops.json`: the floating-point operations of a prediction for one row.

    Attributes:
      a_row: how many there are.
      by_op: the part of each type of op.
      varying: how many of the ops have a size that differs between rows.
    """

    a_row: int
    by_op: dict[str, int]
    varying: int


def path_of(model_dir: str, name: str) -> str:
    return os.path.join(model_dir, "observed", name)
