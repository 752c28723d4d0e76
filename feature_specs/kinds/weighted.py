"""The kind `weighted`: ids of a list, each with a weight. Does not import TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from feature_specs.errors import Problem, unknown
from feature_specs.kinds.base import (
    LISTS_OF_LISTS,
    Entries,
    Reference,
    feature_under,
    is_nested,
    list_form,
    path_to,
)
from feature_specs.kinds.categorical import OverIds


class Weighted(OverIds):
    """The ids of a list, each with its own weight, for instance the number of times a word occurs.

    An embedding of this column combines the vectors by weight. An indicator adds up the weights of
    each id. A linear model multiplies by the weight. An embedding ignores ids with a weight of 0 or
    less.
    """

    changes = "values"

    kind = "weighted"
    categorical = True
    source: str = Field(
        alias="weighted",
        description="The name of an `identity`, `vocabulary` or `hash_bucket` column over a list.",
    )
    weight: str = Field(
        description="The name of a float32 feature that is a list. In each record it must be as "
        "long as the list of ids."
    )

    @property
    def weighted_by(self) -> str:
        return self.weight

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        yield from super().source_problems(spec, name)
        path, source = path_to(self, name), spec.columns.get(self.source)
        if source is not None and source.categorical:
            yield from self._id_problems(spec, name)
        weight = spec.features.get(self.weight)
        path = ("columns", name, "weight")
        if weight is None:
            yield unknown(path, self.weight, "a feature", list(spec.features))
        elif weight.dtype != "float32" or not weight.variable:
            yield Problem(
                path,
                f"feature {self.weight!r} is {weight.dtype} with {weight.form}, expected "
                f"float32 with {list_form(spec)}, one weight per id",
            )

    def _id_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, source = path_to(self, name), spec.columns[self.source]
        if not source.looks_up:
            yield Problem(
                path,
                f"column {self.source!r} is {source.kind}, expected an identity, vocabulary or "
                "hash_bucket column",
            )
        elif source.is_sequence(spec):
            yield Problem(path, f"column {self.source!r} is a sequence, which cannot have weights")
        else:
            feature = spec.features.get(next(source.features(spec)))
            if feature is not None and not feature.variable:
                yield Problem(
                    path,
                    f"column {self.source!r} has one value per record, expected a list. Declare "
                    "its feature with shape: variable.",
                )

    def nested_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        if is_nested(spec, feature_under(spec, self.source)):
            yield from super().nested_problems(spec, name)
        elif is_nested(spec, self.weight):
            yield Problem(("columns", name, "weight"), f"feature {self.weight!r} {LISTS_OF_LISTS}")

    def cross_problem(self, spec: Entries, key: str) -> str:
        return (
            f"column {key!r} is weighted, which cannot be crossed. Cross {self.source!r} instead."
        )

    def features(self, spec: Entries) -> Iterator[str]:
        yield from super().features(spec)
        yield self.weight

    def id_count(self, spec: Entries) -> int:
        return spec.columns[self.source].id_count(spec)

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        return spec.columns[self.source].ids_meaning(spec)

    def canned_name(self, spec: Entries, name: str) -> str:
        return f"{self.name_of_source(spec)}_weighted_by_{self.weight}"

    def feature_column(self, reference: Reference, name: str) -> Any:
        return reference.tf.feature_column.weighted_categorical_column(
            reference.column(self.source), self.weight
        )
