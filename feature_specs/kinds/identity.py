"""The kind `identity`: integers that are ids. Imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import PositiveInt
from feature_specs.kinds.base import Entries, Reference
from feature_specs.kinds.lookup import Lookup


class Identity(Lookup):
    """An integer that already is an id in [0, size).

    Outside it, `default_id` when given, an error otherwise. `sequence: true` makes each value of a
    list a step of its own, for models that read steps in their order.
    """

    kind = "identity"
    categorical = True
    named_rows = True
    dtypes = ("int64",)
    compared_apart = frozenset({"source", "size", "sequence", "default_id"})
    source: str = Field(alias="identity")
    size: PositiveInt
    default_id: Optional[Annotated[int, Field(ge=0)]] = None
    sequence: bool = False

    @pydantic.model_validator(mode="after")
    def _check(self) -> Identity:
        if self.default_id is not None and self.default_id >= self.size:
            raise ValueError(f"default_id {self.default_id} must be below size {self.size}")
        return self

    def is_sequence(self, spec: Entries) -> bool:
        return self.sequence

    def id_count(self, spec: Entries) -> int:
        return self.size

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
