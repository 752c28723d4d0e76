"""The kind `identity`: integers that are ids. Does not import TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import PositiveInt, field
from feature_specs.kinds.base import Entries, Reference
from feature_specs.kinds.lookup import Lookup


class Identity(Lookup):
    """An integer that already is an id in [0, size)."""

    changes = "values"

    kind = "identity"
    categorical = True
    named_rows = True
    dtypes = ("int64",)
    by_row = frozenset({"source", "size", "default_id"})
    source: str = Field(alias="identity", description="The name of an int64 feature.")
    size: PositiveInt = field(
        changes="values weights", description="The number of ids: valid values are in [0, size)."
    )
    default_id: Optional[Annotated[int, Field(ge=0)]] = Field(
        None,
        description="The id of values outside [0, size). Without it, such a value is an error.",
    )
    sequence: bool = field(
        False,
        changes="weights",
        description="`true` keeps the values of a list as separate steps, for models that read "
        "steps in order.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Identity:
        if self.default_id is not None and self.default_id >= self.size:
            raise ValueError(
                f"default_id must be less than size, {self.size}, got {self.default_id}"
            )
        return self

    def is_sequence(self, spec: Entries) -> bool:
        return self.sequence

    def id_count(self, spec: Entries) -> int:
        return self.size

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        return {"kind": self.kind, "size": self.size, "default_id": self.default_id}

    @property
    def id_bounds(self) -> Optional[tuple[int, int]]:
        return (0, self.size - 1) if self.default_id is None else None

    def row_names(self, spec: Entries) -> Sequence[int]:
        return range(self.size)

    def feature_column(self, reference: Reference, name: str) -> Any:
        of = reference.tf.feature_column
        if self.sequence:
            make = of.sequence_categorical_column_with_identity
        else:
            make = of.categorical_column_with_identity
        return make(self.source, self.size, default_value=self.default_id)
