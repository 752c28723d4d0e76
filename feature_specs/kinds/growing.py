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

from feature_specs.entry import PositiveInt, field
from feature_specs.errors import Problem
from feature_specs.kinds.base import Entries, Reference, path_to
from feature_specs.kinds.categorical import Lookup

# The key of a missing value, and of a row without a value.
FREE = -1


def _rows_or_ids_of(schema: dict[str, Any]) -> None:
    schema["required"].remove("rows")
    schema["anyOf"] = [{"required": ["rows"]}, {"required": ["ids_of"]}]


class Growing(Lookup):
    """A string or integer that gets its own id when training has read it often enough.

    Until then, and if no row is free, its id is a bucket that it shares with other values, as with
    `hash_bucket`. A new row starts as the row of the bucket, so that nothing jumps. -1 means
    missing, and so does the empty string in a feature of one value. A column with `ids_of` has the
    ids of another one; the parser gives it the options of that column. Each table over such a
    column has `buckets` + `rows` rows from the start, so it never needs more memory.
    """

    model_config = pydantic.ConfigDict(json_schema_extra=_rows_or_ids_of)

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
        changes="values weights",
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
        changes="training weights",
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
    ids_of: Optional[str] = field(
        None,
        changes="weights",
        description="Another growing column, whose ids and options this one has: equal values of "
        "two features, such as an item and the items before it, have one id.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Growing:
        if self.rows + self.buckets > 2**31:
            raise ValueError(
                f"rows and buckets must be {2**31} together at most, got {self.rows + self.buckets}"
            )
        return self

    @property
    def fingerprints(self) -> int:
        """The number of different keys of strings.

        It is a multiple of `buckets`, so that a key modulo `buckets` is the id that a `hash_bucket`
        column of this size gives to the string.
        """
        return (2**63 - 1) // self.buckets * self.buckets

    def ids_name(self, spec: Entries) -> str:
        """The name of its ids in a checkpoint: the feature that they are of."""
        other = None if self.ids_of is None else spec.columns.get(self.ids_of)
        return other.source if isinstance(other, Growing) else self.source

    @property
    def borrowed(self) -> frozenset[str]:
        return frozenset() if self.ids_of is None else OPTIONS

    def problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        yield from super().problems(spec, name)
        if self.ids_of is not None:
            other = spec.columns.get(self.ids_of)
            assert isinstance(other, Growing)  # The parser says so.
            features = [spec.features.get(column.source) for column in (other, self)]
            dtypes = [None if feature is None else feature.dtype for feature in features]
            if None not in dtypes and dtypes[0] != dtypes[1]:
                yield Problem(
                    ("columns", name, "ids_of"),
                    f"column {self.ids_of!r} reads {dtypes[0]}, and this one {dtypes[1]}, whose "
                    "keys differ. Write both features with one dtype, or remove ids_of.",
                )
            return
        for other_name, other in spec.columns.items():
            if other_name == name:
                return
            if not isinstance(other, Growing) or other.ids_of is not None:
                continue
            if other.source == self.source:
                yield Problem(
                    path_to(self, name),
                    f"column {other_name!r} gives ids to the values of {self.source!r}, too. Write "
                    f"{{growing: {self.source}, ids_of: {other_name}}}.",
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
            "ids": self.ids_name(spec),
            "rows": self.rows,
            "buckets": self.buckets,
        }

    def feature_column(self, reference: Reference, name: str) -> NoReturn:
        raise ValueError(
            f"{reference.spec.source}: column {name!r} is growing, and tf.feature_column has no "
            "such column. Train it with a ModelFn, or use a hash_bucket column."
        )


# The fields that a column with `ids_of` does not set.
OPTIONS = frozenset(Growing.model_fields) - {"source", "sequence", "ids_of"}
