"""The kind `dynamic_embedding`: a learned vector per value, in a table that grows.

This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NoReturn, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import PositiveInt, field
from feature_specs.errors import Problem
from feature_specs.kinds.base import LISTS_OF_LISTS, Entries, Reference, is_nested, path_to
from feature_specs.kinds.embedding_tables import Initializer
from feature_specs.kinds.lookup import Lookup


class DynamicEmbedding(Lookup):
    """A learned vector for each value that training has read often enough, in a table that grows.

    The table needs no size and has no hash collisions in practice: the key of a string is its
    63-bit fingerprint, and the key of an integer is the integer itself. -1 means missing. A value
    that has no row (new, too rare or evicted) is treated as missing, in training and in serving. A
    record without values has the zero vector. This kind needs the package
    tensorflow-recommenders-addons, which works only with TensorFlow 2.15.
    """

    kind = "dynamic_embedding"
    dense = "dynamic_embedding"
    for_floats = ". Make an embedding of a bucketized column of it."
    source: str = field(
        alias="dynamic_embedding",
        changes="values",
        description="The name of a string or int64 feature.",
    )
    dimension: PositiveInt = field(changes="weights", description="The length of the vectors.")
    combiner: Literal["mean", "sum", "sqrtn"] = field(
        "mean",
        changes="weights",
        description="How the vectors of a list become one vector: their `mean`, their `sum`, or "
        "`sqrtn`, the sum divided by the square root of the number of values.",
    )
    initializer: Optional[Initializer] = field(
        None,
        changes="training",
        description="The start values of a new row. The default is a truncated normal "
        "distribution with the standard deviation 1/sqrt(dimension).",
    )
    min_count: Annotated[int, Field(ge=1, le=2**31)] = field(
        1,
        changes="training",
        description="How often training must read a value before the value gets a row. The reading "
        "that reaches this count is the first that trains the row.",
    )
    max_rows: Optional[PositiveInt] = field(
        None,
        changes="training",
        description="The number of rows that an eviction keeps, divided among the shards. It also "
        "limits the number of counts of values that have no row yet. By default nothing is "
        "evicted.",
    )
    evict: Literal["oldest", "rarest"] = field(
        "oldest",
        changes="training",
        description="Which values are evicted first: `oldest`, the values that were read longest "
        "ago, or `rarest`, the values that were read least often.",
    )
    evict_every: PositiveInt = field(
        1000,
        changes="training",
        description="The number of steps between evictions. Between two evictions the table may "
        "have more than `max_rows` rows.",
    )
    shards: Annotated[int, Field(ge=1, le=1024)] = field(
        1,
        changes="weights",
        description="The number of parts of the table. The key modulo this number selects the "
        "part. Each parameter server holds one or more parts. Any number of parameter servers, or "
        "none, can read the checkpoint.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> DynamicEmbedding:
        if self.max_rows is None:
            for field in ("evict", "evict_every"):
                if getattr(self, field) != type(self).model_fields[field].default:
                    raise ValueError(
                        f"`{field}` needs max_rows, because without it nothing is evicted. Set "
                        f"max_rows or remove {field}."
                    )
        elif self.max_rows < self.shards:
            raise ValueError(
                f"max_rows must be at least the number of shards, {self.shards}, got "
                f"{self.max_rows}"
            )
        return self

    def nested_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        if is_nested(spec, self.source):
            yield Problem(path_to(self, name), f"feature {self.source!r} {LISTS_OF_LISTS}")

    def width(self, spec: Entries) -> int:
        return self.dimension

    def canned_name(self, spec: Entries, name: str) -> str:
        return name

    def not_linear(self) -> str:
        return (
            "is a dynamic_embedding, which a linear model cannot read. Put a hash_bucket column of "
            "the feature into the group instead."
        )

    def feature_column(self, reference: Reference, name: str) -> NoReturn:
        raise ValueError(
            f"{reference.spec.source}: column {name!r} is a dynamic_embedding, and "
            "tf.feature_column has no such column. Train it with a ModelFn, or use an embedding of "
            "a hash_bucket column."
        )
