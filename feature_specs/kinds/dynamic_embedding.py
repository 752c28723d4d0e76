"""The kind `dynamic_embedding`: a learned vector a value, in a table that grows.

Imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NoReturn, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import PositiveInt
from feature_specs.errors import Problem
from feature_specs.kinds.base import LISTS_OF_LISTS, Entries, Reference, is_nested, path_to
from feature_specs.kinds.embedding_tables import Initializer
from feature_specs.kinds.lookup import Lookup


class DynamicEmbedding(Lookup):
    """A learned vector for each value that was seen often enough, in a table that grows.

    Over a feature of strings or int64, without buckets: a string's key is its 63-bit fingerprint,
    an integer is its own, and -1 is none. A value without a row (never seen, seen too seldom,
    evicted) counts as none in training and serving alike; a record without any has the zero vector.
    Of the package tensorflow-recommenders-addons, which needs TensorFlow 2.15.

    Attributes:
      dimension, combiner, initializer: as of `Embedding`.
      min_count: how often training must have read a value before it has a row; the reading that
        reaches the number is the first to train it.
      max_rows: rows that an eviction leaves, in each shard its part of them; and as many counts of
        values that have no row yet. None evicts nothing.
      evict: who goes first, the values that were read longest ago or those that were read least.
      evict_every: steps from one eviction to the next; in between there may be more rows.
      shards: parts of the table, by the key modulo this number; parameter servers keep one or
        several each. Any number of servers reads the checkpoint, 0 included.
    """

    kind = "dynamic_embedding"
    dense = "dynamic_embedding"
    for_floats = "; make an embedding of a bucketized column over it"
    no_meaning = frozenset({"initializer", "dimension"})
    source: str = Field(alias="dynamic_embedding")
    dimension: PositiveInt
    combiner: Literal["mean", "sum", "sqrtn"] = "mean"
    initializer: Optional[Initializer] = None
    min_count: Annotated[int, Field(ge=1, le=2**31)] = 1
    max_rows: Optional[PositiveInt] = None
    evict: Literal["oldest", "rarest"] = "oldest"
    evict_every: PositiveInt = 1000
    shards: Annotated[int, Field(ge=1, le=1024)] = 1

    @pydantic.model_validator(mode="after")
    def _check(self) -> DynamicEmbedding:
        if self.max_rows is None:
            for field in ("evict", "evict_every"):
                if field in self.model_fields_set:
                    raise ValueError(f"`{field}` goes with max_rows, without which nothing goes")
        elif self.max_rows < self.shards:
            raise ValueError(
                f"max_rows {self.max_rows} must not be below shards {self.shards}; each has a row"
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
            "is a dynamic_embedding, which a linear model does not read; put a hash_bucket column "
            "of the feature into the group instead"
        )

    def feature_column(self, reference: Reference, name: str) -> NoReturn:
        raise ValueError(
            f"{reference.spec.source}: column {name!r} is a dynamic_embedding, which no "
            "tf.feature_column is; train it with a ModelFn, or make an embedding of a hash_bucket "
            "column"
        )
