"""The kind `embedding`: a learned vector an id. Imports no TensorFlow."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import NAME_PATTERN, PositiveFloat, PositiveInt
from feature_specs.kinds.base import Entries, Reference
from feature_specs.kinds.embedding_tables import Initializer, Pretrained
from feature_specs.kinds.over_ids import OverIds


class Embedding(OverIds):
    """A learned vector an id; a list of ids is combined by `combiner`.

    A record without ids has the zero vector.

    Attributes:
      dimension: length of the vectors.
      combiner: `mean`, `sum` or `sqrtn` (sum / sqrt(number of ids)).
      initializer: what the table starts from, by default a truncated normal with the stddev
        1/sqrt(dimension), as in `tf.feature_column.embedding_column`.
      max_norm: vectors longer than this are scaled down to it when they are looked up.
      trainable: false freezes the table.
      shared: embeddings of one group that give the same name share one table; it gets that name.
      pretrained: where the table comes from when training starts from nothing.
    """

    kind = "embedding"
    dense = "embedding"
    no_meaning = frozenset(
        {"initializer", "pretrained", "trainable", "shared", "max_norm", "dimension"}
    )
    source: str = Field(alias="embedding")
    dimension: PositiveInt
    combiner: Literal["mean", "sum", "sqrtn"] = "mean"
    initializer: Optional[Initializer] = None
    max_norm: Optional[PositiveFloat] = None
    trainable: bool = True
    shared: Optional[Annotated[str, Field(pattern=NAME_PATTERN)]] = None
    pretrained: Optional[Pretrained] = None

    @pydantic.model_validator(mode="after")
    def _check(self) -> Embedding:
        if not self.trainable and self.pretrained is None and self.initializer is None:
            raise ValueError(
                "trainable: false freezes random vectors; give pretrained vectors, or an "
                "initializer if that is meant"
            )
        return self

    @property
    def shared_table(self) -> Optional[str]:
        return self.shared

    def width(self, spec: Entries) -> int:
        return self.dimension

    def canned_name(self, spec: Entries, name: str) -> str:
        shared = "_shared" if self.shared is not None else ""
        return f"{self.name_of_source(spec)}{shared}_embedding"

    def not_linear(self) -> str:
        return (
            f"is {self.kind}, which a linear model does not need; put {self.source!r} itself into "
            "the group instead"
        )

    def feature_column(self, reference: Reference, name: str) -> Any:
        return reference.tf.feature_column.embedding_column(
            reference.column(self.source), self.dimension, **reference.table(name)
        )
