"""The kind `crossed`: combinations of values, hashed to ids. Does not import TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Words
from feature_specs.errors import Path, Problem, unknown
from feature_specs.kinds.base import (
    LISTS_OF_LISTS,
    Column,
    Entries,
    Reference,
    feature_under,
    is_nested,
)


class Crossed(Column):
    """The combination of the values of two or more keys, hashed to ids in [0, size).

    It lets a linear model learn a weight per combination, such as a country with a device.
    """

    changes = "values"

    kind = "crossed"
    categorical = True
    sources: Annotated[Words, Field(min_length=2)] = Field(
        alias="crossed",
        description="The names of string or int64 features, or of categorical columns other than "
        "`hash_bucket`.",
    )
    size: Annotated[int, Field(ge=2, le=2**62)] = Field(
        description="The number of ids. Different combinations may share an id."
    )
    hash_key: Optional[int] = Field(
        None,
        description="The `hash_key` of `tf.feature_column.crossed_column`: a number that changes "
        "the hash function.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Crossed:
        for i, key in enumerate(self.sources):
            if key in self.sources[:i]:
                raise ValueError(f"key {key!r} is listed twice. Remove one of them.")
        return self

    def parents(self, spec: Entries) -> tuple[str, ...]:
        return tuple(key for key in self.sources if key in spec.columns)

    def problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        for i, key in enumerate(self.sources):
            if key != name:
                yield from _key_problems(spec, key, ("columns", name, "crossed", i))

    def nested_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        for i, key in enumerate(self.sources):
            if is_nested(spec, feature_under(spec, key)):
                yield Problem(("columns", name, "crossed", i), f"{key!r} {LISTS_OF_LISTS}")

    def cross_problem(self, spec: Entries, key: str) -> str:
        return f"column {key!r} is a cross itself. List its keys instead."

    def features(self, spec: Entries) -> Iterator[str]:
        for key in self.sources:
            yield from spec.columns[key].features(spec) if key in spec.columns else (key,)

    def names_values_of(self, spec: Entries) -> tuple[str, ...]:
        # A column hides the feature of the same name.
        return tuple(key for key in self.sources if key not in spec.columns)

    def id_count(self, spec: Entries) -> int:
        return self.size

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        keys = [
            # Unlike in a hash_bucket, an integer has another hash than its digits.
            spec.columns[key].ids_meaning(spec) if key in spec.columns else spec.features[key].dtype
            for key in self.sources
        ]
        return {"kind": self.kind, "size": self.size, "hash_key": self.hash_key, "keys": keys}

    def canned_name(self, spec: Entries, name: str) -> str:
        keys = [
            spec.columns[key].canned_name(spec, key) if key in spec.columns else key
            for key in self.sources
        ]
        return "_X_".join(sorted(keys))

    def feature_column(self, reference: Reference, name: str) -> Any:
        keys = [reference.column(k) if k in reference.spec.columns else k for k in self.sources]
        return reference.tf.feature_column.crossed_column(keys, self.size, hash_key=self.hash_key)


def _key_problems(spec: Entries, key: str, path: Path) -> Iterator[Problem]:
    column, feature = spec.columns.get(key), spec.features.get(key)
    if column is not None:
        problem = column.cross_problem(spec, key)
        if problem is not None:
            yield Problem(path, problem)
    elif feature is None:
        choices = [*spec.columns, *spec.features]
        yield unknown(path, key, "a feature or a categorical column", choices)
    elif feature.dtype == "float32":
        yield Problem(
            path,
            f"feature {key!r} is float32, which cannot be crossed. Cross a bucketized column of it "
            "instead.",
        )
    elif feature.decode is not None:
        yield Problem(
            path,
            f"feature {key!r} is decoded to numbers, which cannot be crossed. Cross a bucketized "
            "column of it instead.",
        )
    elif not (feature.single or feature.variable):
        yield Problem(path, f"feature {key!r} has a fixed length. Declare it with shape: variable.")
