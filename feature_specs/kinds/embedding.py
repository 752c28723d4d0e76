"""The kind `embedding`: a learned vector for each id of a column.

Its start values are entries, too: initializers and pretrained vectors. This module does not read
the files (`feature_specs.embeddings.initial_values` does), and does not import TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import (
    NAME_PATTERN,
    Declared,
    Entry,
    PositiveFloat,
    PositiveInt,
    Range,
    field,
    only_key,
    spelled_out,
)
from feature_specs.errors import Path
from feature_specs.kinds.base import Entries, Reference
from feature_specs.kinds.categorical import OverIds


class Zeros(Entry):
    """All values are 0."""

    zeros: Literal[True] = Field(description="All values are 0. Write `zeros` without a value.")


class TruncatedNormal(Entry):
    """A normal distribution with the mean 0. Values beyond two standard deviations are redrawn."""

    class Values(Entry):
        """The options of `truncated_normal`."""

        stddev: PositiveFloat = Field(description="The standard deviation before the truncation.")

    truncated_normal: Values = Field(
        description="A normal distribution with the mean 0. Values beyond two standard deviations "
        "are redrawn."
    )


class Normal(Entry):
    """A normal distribution with the mean 0."""

    class Values(Entry):
        """The options of `normal`."""

        stddev: PositiveFloat = Field(description="The standard deviation.")

    normal: Values = Field(description="A normal distribution with the mean 0.")


class Uniform(Entry):
    """A uniform distribution over [min, max)."""

    uniform: Range = Field(description="A uniform distribution over [min, max).")


def _spelled_out(value: Any) -> Any:
    return spelled_out(value, "zeros")


Initializer = Annotated[
    Union[
        Annotated[Zeros, pydantic.Tag("zeros")],
        Annotated[TruncatedNormal, pydantic.Tag("truncated_normal")],
        Annotated[Normal, pydantic.Tag("normal")],
        Annotated[Uniform, pydantic.Tag("uniform")],
    ],
    pydantic.Discriminator(
        only_key,
        custom_error_type="initializer",
        custom_error_message="zeros, {truncated_normal: {stddev}}, {normal: {stddev}}, or "
        "{uniform: {min, max}}",
    ),
    pydantic.BeforeValidator(_spelled_out),
]


class Pretrained(Entry):
    """Vectors that were learned elsewhere. Only a new training reads them.

    Set `file`, or `checkpoint` and `tensor`.
    """

    file: Optional[str] = Field(
        None,
        description="A path relative to the folder of the spec, and below it. In a text file each "
        "line has a word and its numbers; it needs a column over a vocabulary. The word ends at "
        "the first tab of its line, or at the first space if the line has no tab. Words without a "
        "line start from the initializer, and the log reports their number. An `.npy` file holds a "
        "float array [ids, dimension] in the order of the ids. It may leave out the "
        "out-of-vocabulary buckets, which are the last ids.",
    )
    checkpoint: Optional[str] = Field(
        None,
        description="The path prefix of a TensorFlow checkpoint, relative to the folder of the "
        "spec and below it.",
    )
    tensor: Optional[str] = Field(
        None, description="The name of the tensor [ids, dimension] in the checkpoint."
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Pretrained:
        if (self.file is None) == (self.checkpoint is None):
            raise ValueError("set either `file`, or `checkpoint` and `tensor`")
        if (self.checkpoint is None) != (self.tensor is None):
            raise ValueError("`checkpoint` and `tensor` need each other. Set both.")
        return self


class EmbeddingTable(Declared):
    """A table of learned vectors that embeddings with `table` use."""

    dimension: PositiveInt = field(changes="weights", description="The length of the vectors.")
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
    pretrained: Optional[Pretrained] = field(
        None,
        changes="training",
        named=True,
        description="The file or checkpoint with the start values of the table. It is read only "
        "when a new training starts.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> EmbeddingTable:
        if not self.trainable and self.pretrained is None and self.initializer is None:
            raise ValueError(
                "trainable: false freezes random vectors. Add pretrained vectors, or an "
                "initializer if random vectors are intended."
            )
        if not self.trainable and self.l2 is not None:
            raise ValueError("trainable: false freezes the table, so l2 has no effect. Remove l2.")
        return self


def _dimension_or_table(schema: dict[str, Any]) -> None:
    schema["required"].remove("dimension")
    schema["anyOf"] = [{"required": ["dimension"]}, {"required": ["table"]}]


class Embedding(EmbeddingTable, OverIds):
    """A learned vector for each id of a categorical column.

    A record without ids has the zero vector. An embedding has its own table, or one of
    `embedding_tables`. Then the parser gives it the options of that table.
    """

    model_config = pydantic.ConfigDict(json_schema_extra=_dimension_or_table)

    kind = "embedding"
    dense = "embedding"
    source: str = field(
        alias="embedding", changes="weights", description="The name of a categorical column."
    )
    combiner: Literal["mean", "sum", "sqrtn"] = field(
        "mean",
        changes="weights",
        description="How the vectors of a list of ids become one vector: their `mean`, their "
        "`sum`, or `sqrtn`, the sum divided by the square root of the number of ids.",
    )
    table: Optional[Annotated[str, Field(pattern=NAME_PATTERN)]] = field(
        None,
        changes="weights",
        description="A table of `embedding_tables`, which then has all other options but "
        "`combiner`. Embeddings of several columns can use one table.",
    )

    def place_of_options(self, name: str) -> Path:
        """The entry that has the options of its table. `name` is the name of this column."""
        return ("columns", name) if self.table is None else ("embedding_tables", self.table)

    def width(self, spec: Entries) -> int:
        return self.dimension

    def canned_name(self, spec: Entries, name: str) -> str:
        shared = "_shared" if self.table is not None else ""
        return f"{self.name_of_source(spec)}{shared}_embedding"

    @property
    def borrowed(self) -> frozenset[str]:
        return frozenset() if self.table is None else frozenset(EmbeddingTable.model_fields)

    @property
    def shared_table(self) -> Optional[str]:
        return self.table

    def not_linear(self) -> str:
        return (
            f"is {self.kind}, which a linear model cannot read. Put {self.source!r} itself into "
            "the group instead."
        )

    def feature_column(self, reference: Reference, name: str) -> Any:
        return reference.tf.feature_column.embedding_column(
            reference.column(self.source), self.dimension, **reference.table(name)
        )
