"""The kind `embedding`: a learned vector per id. Does not import TensorFlow."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import NAME_PATTERN, PositiveFloat, PositiveInt, field
from feature_specs.kinds.base import Entries, Reference
from feature_specs.kinds.embedding_tables import Initializer, Pretrained
from feature_specs.kinds.over_ids import OverIds


class Embedding(OverIds):
    """A learned vector for each id of a categorical column.

    A record without ids has the zero vector.
    """

    kind = "embedding"
    dense = "embedding"
    source: str = field(
        alias="embedding", changes="weights", description="The name of a categorical column."
    )
    dimension: PositiveInt = field(changes="weights", description="The length of the vectors.")
    combiner: Literal["mean", "sum", "sqrtn"] = field(
        "mean",
        changes="weights",
        description="How the vectors of a list of ids become one vector: their `mean`, their "
        "`sum`, or `sqrtn`, the sum divided by the square root of the number of ids.",
    )
    initializer: Optional[Initializer] = field(
        None,
        changes="training",
        description="The start values of the table. The default is a truncated normal distribution "
        "with the standard deviation 1/sqrt(dimension), as in "
        "`tf.feature_column.embedding_column`.",
    )
    max_norm: Optional[PositiveFloat] = field(
        None,
        changes="weights",
        description="The largest L2 norm of a vector. A lookup scales longer vectors down to it. "
        "The default sets no limit.",
    )
    l2: Optional[PositiveFloat] = field(
        None,
        changes="training scores",
        description="The factor of an L2 penalty, which is added to the loss: the squared lengths "
        "of the vectors that the ids of a row look up, as a mean over rows. Vectors that are not "
        "in the batch do not change. The default adds no penalty.",
    )
    trainable: bool = field(True, changes="training", description="`false` freezes the table.")
    shared: Optional[Annotated[str, Field(pattern=NAME_PATTERN)]] = field(
        None,
        changes="weights",
        description="The name of a table to share. The embeddings of a group with the same name "
        "use one table of this name.",
    )
    pretrained: Optional[Pretrained] = field(
        None,
        changes="training",
        named=True,
        description="The file or checkpoint with the start values of the table. It is read only "
        "when a new training starts.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Embedding:
        if not self.trainable and self.pretrained is None and self.initializer is None:
            raise ValueError(
                "trainable: false freezes random vectors. Add pretrained vectors, or an "
                "initializer if random vectors are intended."
            )
        if not self.trainable and self.l2 is not None:
            raise ValueError("trainable: false freezes the table, so l2 has no effect. Remove l2.")
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
            f"is {self.kind}, which a linear model cannot read. Put {self.source!r} itself into "
            "the group instead."
        )

    def feature_column(self, reference: Reference, name: str) -> Any:
        return reference.tf.feature_column.embedding_column(
            reference.column(self.source), self.dimension, **reference.table(name)
        )
