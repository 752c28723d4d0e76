"""The base class of kinds that map each value of a feature to an id or a key.

This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from feature_specs.errors import Problem, unknown
from feature_specs.kinds.base import (
    LISTS_OF_LISTS,
    Entries,
    Sourced,
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
