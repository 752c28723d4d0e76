"""The kind `growing`: ids that training gives to values while it reads them.

Its ids are a number of shared buckets, and then rows of single values:

    0 ... buckets - 1                    a value without a row: its key modulo `buckets`
    buckets ... buckets + rows - 1       one value each

Which value has which row is part of a checkpoint, so only a model can look it up. The transform
returns the key of a value: an integer itself, or the 63-bit fingerprint of a string. See
`estimator_kit.embeddings.growing_ids`. This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NoReturn, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import NAME_PATTERN, PositiveInt, field
from feature_specs.errors import Problem
from feature_specs.kinds.base import Entries, Reference, path_to
from feature_specs.kinds.categorical import Lookup

# Fields that columns with the same ids need not have in common.
_OWN = {"source", "sequence", "shared"}


class Growing(Lookup):
    """A string or integer that gets its own id when training has read it often enough.

    Until then, and if no row is free, its id is a bucket that it shares with other values, as with
    `hash_bucket`. A new row starts as the row of the bucket, so that nothing jumps. -1 means
    missing, and so does the empty string in a feature of one value. Columns of one feature have the
    same ids, and so have columns with the same `shared`. Each table over such a column has
    `buckets` + `rows` rows from the start, so it never needs more memory.
    """

    kind = "growing"
    categorical = True
    keyed = True
    for_floats = ". Use a bucketized column instead."
    source: str = field(
        alias="growing", changes="values", description="The name of a string or int64 feature."
    )
    rows: Annotated[int, Field(ge=1, le=2**31)] = field(
        changes="weights", description="The most values that have their own id."
    )
    buckets: PositiveInt = field(
        1000,
        changes="weights",
        description="The number of ids that values without their own id share.",
    )
    min_count: Annotated[int, Field(ge=1, le=2**31)] = field(
        2,
        changes="training",
        description="How often training must read a value before the value gets its own id. Each "
        "occurrence in a batch counts.",
    )
    admit_every: PositiveInt = field(
        100,
        changes="training",
        description="The number of steps after which values get their own ids, the most frequent "
        "ones first.",
    )
    evict: Literal["oldest", "rarest"] = field(
        "oldest",
        changes="training",
        description="Which values lose their ids if there are more than `rows`: `oldest`, those "
        "that were read longest ago, or `rarest`, those that were read least often.",
    )
    evict_every: PositiveInt = field(
        10_000,
        changes="training",
        description="The number of steps after which as many values lose their ids as other values "
        "wait for one. Their rows, and the slots of optimizers for them, start again.",
    )
    sequence: bool = field(
        False,
        changes="weights",
        description="`true` keeps the values of a list as separate steps, for models that read "
        "steps in order.",
    )
    shared: Optional[Annotated[str, Field(pattern=NAME_PATTERN)]] = field(
        None,
        changes="weights",
        description="A name that columns of several features have in common if equal values "
        "should have equal ids, such as an item and the items before it.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Growing:
        if self.rows + self.buckets > 2**31:
            raise ValueError("rows and buckets must be 2147483648 together at most")
        return self

    @property
    def ids_name(self) -> str:
        """The name of its ids in a checkpoint."""
        return self.shared or self.source

    def problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        yield from super().problems(spec, name)
        for other_name, other in spec.columns.items():
            if other_name == name:
                return
            if not isinstance(other, Growing) or other.ids_name != self.ids_name:
                continue
            path = path_to(self, name)
            both = f"columns {other_name!r} and {name!r} have the same ids ({self.ids_name!r})"
            mine, theirs = (column.model_dump(exclude=_OWN) for column in (self, other))
            for key, value in mine.items():
                if value != theirs[key]:
                    yield Problem(
                        path,
                        f"{both}, but {key} is {theirs[key]!r} and {value!r}. Write the same value "
                        "in both.",
                    )
            dtypes = [
                feature.dtype if (feature := spec.features.get(column.source)) else None
                for column in (other, self)
            ]
            if None not in dtypes and dtypes[0] != dtypes[1]:
                yield Problem(
                    path,
                    f"{both}, but the features have the dtypes {dtypes[0]} and {dtypes[1]}, whose "
                    "keys differ. Write both features with one dtype, or choose another `shared`.",
                )
            return

    def cross_problem(self, spec: Entries, key: str) -> str:
        return (
            f"column {key!r} is growing, expected the feature {self.source!r} itself, because a "
            "cross is made before the model"
        )

    def is_sequence(self, spec: Entries) -> bool:
        return self.sequence

    def id_count(self, spec: Entries) -> int:
        return self.buckets + self.rows

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "ids": self.ids_name,
            "rows": self.rows,
            "buckets": self.buckets,
        }

    def feature_column(self, reference: Reference, name: str) -> NoReturn:
        raise ValueError(
            f"{reference.spec.source}: column {name!r} is growing, and tf.feature_column has no "
            "such column. Train it with a ModelFn, or use a hash_bucket column."
        )
