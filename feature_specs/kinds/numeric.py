"""The kind `numeric`: the numbers of a record. Does not import TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from feature_specs.errors import Problem, unknown
from feature_specs.kinds.base import Entries, Reference, Sourced, path_to
from feature_specs.kinds.normalizers import Normalizers


class Numeric(Sourced):
    """A number, or a fixed number of numbers, after the normalizers.

    The result is float32. Normalizers read an int64 with all of its digits. So they can subtract
    the mean of large numbers, such as seconds since 1970.
    """

    changes = "values"

    kind = "numeric"
    dense = "numbers"
    normalizer_statistics = True
    source: str = Field(alias="numeric", description="The name of a feature of numbers.")
    normalizer: Normalizers = Field(
        (),
        description="One normalizer, or a list of normalizers that are applied in order: `log1p`, "
        "`zscore`, `minmax` and `clip`.",
    )

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, feature = path_to(self, name), spec.features.get(self.source)
        if feature is None:
            yield unknown(path, self.source, "the name of a feature", list(spec.features))
            return
        if not feature.is_number:
            yield Problem(path, f"feature {self.source!r} is a string, expected a number")
        if feature.variable:
            by_step = ". Use sequence_numeric for one number per step."
            hint = by_step if feature.feature_list else ""
            yield Problem(
                path,
                f"feature {self.source!r} has a variable length, expected a fixed shape{hint}",
            )

    def width(self, spec: Entries) -> int:
        return spec.features[self.source].width

    def feature_column(self, reference: Reference, name: str) -> Any:
        tf, feature = reference.tf, reference.spec.features[self.source]
        return tf.feature_column.numeric_column(
            self.source,
            shape=feature.number_shape or (1,),
            dtype=tf.float32 if feature.decode is not None else tf.as_dtype(feature.dtype),
            normalizer_fn=reference.normalizer_fn(self.normalizer) if self.normalizer else None,
        )
