"""The kind `indicator`: the counts of ids. Does not import TensorFlow."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from feature_specs.kinds.base import Entries, Reference
from feature_specs.kinds.over_ids import OverIds


class Indicator(OverIds):
    """The count of each id in a record: one-hot for one value, counts for a list."""

    changes = "weights"

    kind = "indicator"
    dense = "counts"
    has_variables = False
    source: str = Field(alias="indicator", description="The name of a categorical column.")

    def canned_name(self, spec: Entries, name: str) -> str:
        return f"{self.name_of_source(spec)}_indicator"

    def not_linear(self) -> str:
        return (
            f"is {self.kind}, which a linear model cannot read. Put {self.source!r} itself into "
            "the group instead."
        )

    def feature_column(self, reference: Reference, name: str) -> Any:
        return reference.tf.feature_column.indicator_column(reference.column(self.source))
