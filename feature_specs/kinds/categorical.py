"""The kinds `hash_bucket`, `identity` and `indicator`, and what all kinds of ids have in common.

`Lookup` is the base of kinds that map each value of a feature to an id or a key, and `OverIds` of
kinds that use the ids of another column. `vocabulary` is in its own module. Does not import
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import PositiveInt, field
from feature_specs.errors import Problem, did_you_mean, unknown
from feature_specs.kinds.base import (
    LISTS_OF_LISTS,
    Entries,
    Reference,
    Sourced,
    feature_under,
    is_nested,
    list_form,
    path_to,
)


class Lookup(Sourced):
    """The base class of columns that look up each value of a feature.

    Attributes:
      dtypes: the dtypes of the features that it reads.
      for_floats: the remedy for a float32 feature, for messages.
    """

    looks_up = True
    dtypes: ClassVar[tuple[str, ...]] = ("string", "int64")
    for_floats: ClassVar[str] = ". Use a bucketized column instead."

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, feature = path_to(self, name), spec.features.get(self.source)
        if feature is None:
            yield unknown(path, self.source, "the name of a feature", list(spec.features))
            return
        if feature.decode is not None:
            yield Problem(
                path,
                f"feature {self.source!r} is decoded to numbers, which only numeric and bucketized "
                "columns read. Remove decode to read the bytes themselves.",
            )
            return
        if feature.dtype not in self.dtypes:
            hint = "" if feature.dtype == "string" else self.for_floats
            yield Problem(
                path,
                f"feature {self.source!r} is {feature.dtype}, expected "
                f"{' or '.join(self.dtypes)}{hint}",
            )
        elif not (feature.single or feature.variable):
            yield Problem(
                path,
                f"feature {self.source!r} has the shape {list(feature.shape)}, expected one value "
                "or a list. Declare it with shape: variable.",
            )
        if self.is_sequence(spec) and not feature.variable:
            yield Problem(
                ("columns", name, "sequence"),
                f"feature {self.source!r} has one value per record, expected a list of steps. "
                f"Declare it with {list_form(spec)}, or remove sequence.",
            )

    def nested_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        if self.is_sequence(spec) and is_nested(spec, self.source):
            yield Problem(
                ("columns", name, "sequence"),
                f"feature {self.source!r} {LISTS_OF_LISTS}. Remove sequence.",
            )

    def names_values_of(self, spec: Entries) -> tuple[str, ...]:
        return (self.source,)


class HashBucket(Lookup):
    """A string or integer, hashed to an id in [0, size). Different values may share an id."""

    changes = "values"

    kind = "hash_bucket"
    categorical = True
    source: str = Field(alias="hash_bucket", description="The name of a string or int64 feature.")
    size: Annotated[int, Field(ge=2, le=2**62)] = Field(
        description="The number of ids. A larger number has fewer collisions and needs more memory."
    )
    salt: str = Field(
        "",
        description="A text that is hashed before each value. Columns with different texts hash "
        "equal values to different ids, so that several features can use one embedding table.",
    )
    sequence: bool = field(
        False,
        changes="weights",
        description="`true` keeps the values of a list as separate steps, for models that read "
        "steps in order.",
    )

    def cross_problem(self, spec: Entries, key: str) -> str:
        rename = " Rename the column, so that its name means the feature."
        return (
            f"column {key!r} is a hash_bucket, expected the feature {self.source!r} itself: "
            f"hashing twice only adds collisions.{rename if key == self.source else ''}"
        )

    def is_sequence(self, spec: Entries) -> bool:
        return self.sequence

    def id_count(self, spec: Entries) -> int:
        return self.size

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        # An integer is hashed as its digits, so the dtype of the feature does not count.
        return {"kind": self.kind, "size": self.size}

    def feature_column(self, reference: Reference, name: str) -> Any:
        if self.salt:
            raise ValueError(
                f"{reference.spec.source}: column {name!r} has a salt, and tf.feature_column has "
                "none. Train it with a ModelFn, or remove salt."
            )
        of = reference.tf.feature_column
        if self.sequence:
            make = of.sequence_categorical_column_with_hash_bucket
        else:
            make = of.categorical_column_with_hash_bucket
        dtype = reference.tf.as_dtype(reference.spec.features[self.source].dtype)
        return make(self.source, self.size, dtype=dtype)


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


class OverIds(Sourced):
    """The base class of columns that use the ids of the categorical column `source` unchanged."""

    by_row = frozenset({"source"})

    def parents(self, spec: Entries) -> tuple[str, ...]:
        return (self.source,) if self.source in spec.columns else ()

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, source = path_to(self, name), spec.columns.get(self.source)
        if source is None:
            hint = did_you_mean(self.source, [n for n, c in spec.columns.items() if c.categorical])
            if self.source in spec.features:
                hint = (
                    f". {self.source!r} is a feature. Make a hash_bucket or vocabulary column of "
                    "it first."
                )
            yield Problem(
                path, f"got {self.source!r}, expected the name of a categorical column{hint}"
            )
        elif not source.categorical:
            yield Problem(
                path,
                f"column {self.source!r} is {source.kind}, expected a categorical column for "
                f"{self.kind}",
            )

    def nested_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        if is_nested(spec, feature_under(spec, self.source)):
            yield Problem(
                path_to(self, name),
                f"column {self.source!r} {LISTS_OF_LISTS}. Use {{ragged: {self.source}}}, and "
                "combine the vectors in your own model.",
            )

    def features(self, spec: Entries) -> Iterator[str]:
        yield from spec.columns[self.source].features(spec)

    @property
    def ids_source(self) -> str:
        return self.source

    def is_sequence(self, spec: Entries) -> bool:
        return spec.columns[self.source].is_sequence(spec)

    def name_of_source(self, spec: Entries) -> str:
        """The `.name` of the `tf.feature_column` of its source."""
        return spec.columns[self.source].canned_name(spec, self.source)


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
