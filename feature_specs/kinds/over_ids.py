"""The base class of kinds that are made from the ids of a categorical column.

This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator

from feature_specs.errors import Problem, did_you_mean
from feature_specs.kinds.base import (
    LISTS_OF_LISTS,
    Entries,
    Sourced,
    feature_under,
    is_nested,
    path_to,
)


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
