"""The kind `sequence_numeric`: one number per step. Does not import TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from feature_specs.errors import Problem, unknown
from feature_specs.kinds.base import (
    LISTS_OF_LISTS,
    Entries,
    Reference,
    Sourced,
    is_nested,
    list_form,
    path_to,
)
from feature_specs.kinds.normalizers import Normalizers


class SequenceNumeric(Sourced):
    """One number per step of a list of steps, after the normalizers."""

    changes = "values"

    kind = "sequence_numeric"
    dense = "numbers"
    normalizer_statistics = True
    source: str = Field(
        alias="sequence_numeric", description="The name of a feature that is a list of numbers."
    )
    normalizer: Normalizers = Field(
        (),
        description="One normalizer, or a list of normalizers that are applied in order: `log1p`, "
        "`zscore`, `minmax` and `clip`.",
    )

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, feature = path_to(self, name), spec.features.get(self.source)
        if feature is None:
            yield unknown(path, self.source, "the name of a feature", list(spec.features))
        elif feature.dtype == "string" or not feature.variable:
            yield Problem(
                path,
                f"feature {self.source!r} is {feature.dtype} with {feature.form}, "
                f"expected numbers with {list_form(spec)}, one per step",
            )

    def nested_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        if is_nested(spec, self.source):
            yield Problem(
                path_to(self, name),
                f"feature {self.source!r} {LISTS_OF_LISTS}. Use {{ragged: {self.source}}}.",
            )

    def is_sequence(self, spec: Entries) -> bool:
        return True

    def width(self, spec: Entries) -> int:
        return 1

    def feature_column(self, reference: Reference, name: str) -> Any:
        tf, normalize = reference.tf, reference.normalizer_fn(self.normalizer)
        return tf.feature_column.sequence_numeric_column(
            self.source,
            dtype=tf.as_dtype(reference.spec.features[self.source].dtype),
            # TensorFlow passes a SparseTensor. The function is always set, because without it
            # TensorFlow fails on integers.
            normalizer_fn=lambda steps: tf.sparse.map_values(normalize, steps),
        )
