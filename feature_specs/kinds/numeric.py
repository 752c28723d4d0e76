"""The kinds of numbers: `numeric`, `sequence_numeric` with one per step, and `bucketized`.

Does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import LARGEST_FLOAT32, ExactNumber, Scalar, as_tuple
from feature_specs.errors import Path, Problem, unknown, value_text
from feature_specs.feature import Feature
from feature_specs.kinds import bounds, normalizers
from feature_specs.kinds.base import (
    LISTS_OF_LISTS,
    Entries,
    Reference,
    Sourced,
    is_nested,
    list_form,
    path_to,
)
from feature_specs.kinds.missing import default_problems, marker
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
    missing: Optional[ExactNumber] = Field(
        None,
        description="The number, before normalizers, for a missing value, which is a value equal "
        "to the feature's default. Choose a usual number, such as the median. By default the "
        "default itself.",
    )

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, feature = path_to(self, name), spec.features.get(self.source)
        if feature is None:
            yield unknown(path, self.source, "the name of a feature", list(spec.features))
            return
        if self.missing is not None:
            yield from self._missing_problems(spec, feature, ("columns", name, "missing"))
        if not feature.is_number:
            yield Problem(path, f"feature {self.source!r} is a string, expected a number")
        if feature.variable:
            by_step = ". Use sequence_numeric for one number per step."
            hint = by_step if feature.feature_list else ""
            yield Problem(
                path,
                f"feature {self.source!r} has a variable length, expected a fixed shape{hint}",
            )

    def _missing_problems(self, spec: Entries, feature: Feature, path: Path) -> Iterator[Problem]:
        assert self.missing is not None
        yield from default_problems(spec, self.source, path)
        number = bounds.equal_to(self.missing, "int64")
        if feature.dtype == "int64" and (number is None or not -(2**63) <= number < 2**63):
            yield Problem(
                path,
                f"feature {self.source!r} is int64, got {value_text(self.missing)}, expected an "
                "integer that fits into an int64",
            )
            return
        result = normalizers.normalized(self.normalizer, self.missing)
        if not -LARGEST_FLOAT32 <= result <= LARGEST_FLOAT32:  # Or NaN.
            yield Problem(
                path,
                f"got {value_text(self.missing)}, which is not a finite float32 after the "
                "normalizers. Choose a usual number of the feature, such as the median.",
            )

    def missing_value(self, feature: Feature) -> Optional[Scalar]:
        return None if self.missing is None else marker(feature)

    def replaced(self, spec: Entries) -> Optional[tuple[Any, Any]]:
        """(the value that means missing, the number in its place), as stored; None if no value."""
        if self.missing is None:
            return None
        feature = spec.features[self.source]
        is_integer = feature.dtype == "int64"
        return marker(feature), int(self.missing) if is_integer else self.missing

    def width(self, spec: Entries) -> int:
        return spec.features[self.source].width

    def feature_column(self, reference: Reference, name: str) -> Any:
        tf, feature = reference.tf, reference.spec.features[self.source]
        return tf.feature_column.numeric_column(
            self.source,
            shape=feature.number_shape or (1,),
            dtype=tf.float32 if feature.decode is not None else tf.as_dtype(feature.dtype),
            normalizer_fn=self.normalized(reference),
        )

    def normalized(self, reference: Reference) -> Optional[Callable[[Any], Any]]:
        """A function that replaces missing values and applies the normalizers; None if neither."""
        tf, replaced = reference.tf, self.replaced(reference.spec)
        normalize = reference.normalizer_fn(self.normalizer) if self.normalizer else None
        if replaced is None:
            return normalize

        def normalized(values: Any) -> Any:
            value, number = (tf.constant(n, values.dtype) for n in replaced)
            values = tf.where(tf.equal(values, value), number, values)
            return values if normalize is None else normalize(values)

        return normalized


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


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    for i, (a, b) in enumerate(zip(values, values[1:])):
        if a >= b:
            raise ValueError(
                f"boundaries must be strictly increasing, got {a} at [{i}] and {b} at [{i + 1}]. "
                f"{'Remove one of the two.' if a == b else 'Sort them.'}"
            )
    return values


class Bucketized(Sourced):
    """The index of the interval that contains a number. n boundaries make n + 1 buckets.

    Bucket i contains the numbers with boundaries[i-1] <= x < boundaries[i]. An int64 is compared as
    an integer, also after normalizers.
    """

    changes = "values"

    kind = "bucketized"
    categorical = True
    dense = "counts"
    source: str = Field(
        alias="bucketized", description="The name of a numeric column or of a feature of numbers."
    )
    boundaries: Annotated[
        tuple[ExactNumber, ...],
        pydantic.BeforeValidator(as_tuple),
        Field(min_length=1),
        pydantic.AfterValidator(_increasing),
    ] = Field(
        description="The limits between the buckets, strictly increasing. Instead of boundaries, "
        "`quantiles` and `statistics` take them from a statistics file: "
        "`{bucketized: age, quantiles: 10, statistics: statistics.json}`."
    )
    missing: Optional[Literal["own_bucket"]] = Field(
        None,
        description="`own_bucket` gives missing values, which are equal to the feature's default, "
        "one more bucket, the last one. By default they are in the bucket of their number.",
    )

    @property
    def buckets(self) -> int:
        """The number of buckets of one number."""
        return len(self.boundaries) + 1 + (self.missing is not None)

    def missing_value(self, feature: Feature) -> Optional[Scalar]:
        return None if self.missing is None else marker(feature)

    def numeric(self, spec: Entries) -> Numeric:
        """The numeric column that it reads. A feature counts as a numeric column."""
        source = spec.columns.get(self.source)
        return source if isinstance(source, Numeric) else Numeric(numeric=self.source)

    def limits(self, spec: Entries) -> tuple[Union[int, float], ...]:
        """The boundaries as numbers of the type in which the feature is compared.

        For an int64 feature, they are the smallest integers in buckets 1, 2, ..., or infinity. So
        integers are compared before they are normalized or become floats. Otherwise they are
        float32 numbers.
        """
        numeric = self.numeric(spec)
        if spec.features[numeric.source].dtype == "int64":
            steps = numeric.normalizer
            return tuple(normalizers.least_integer(steps, limit) for limit in self.boundaries)
        return tuple(bounds.at_least(limit, "float32") for limit in self.boundaries)

    def parents(self, spec: Entries) -> tuple[str, ...]:
        a_column = self.source in spec.columns and self.source not in spec.features
        return (self.source,) if a_column else ()

    def below(self, spec: Entries) -> tuple[str, ...]:
        return (self.source,) if isinstance(spec.columns.get(self.source), Numeric) else ()

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, source = path_to(self, name), spec.columns.get(self.source)
        number = self.numeric(spec).source
        feature = spec.features.get(number)
        if source is not None and not isinstance(source, Numeric) and feature is None:
            yield Problem(path, f"column {number!r} is {source.kind}, expected a numeric column")
        elif feature is None:
            choices = [*spec.columns, *spec.features]
            if source is None:  # Otherwise the numeric column reports that its feature is missing.
                yield unknown(path, number, "a numeric column or feature", choices)
        elif not feature.is_number or feature.variable or len(feature.number_shape) > 1:
            yield Problem(
                path, f"feature {number!r} must hold one number or a fixed number of numbers, [n]"
            )
        elif self.missing is not None and (feature.default is None or feature.decode is not None):
            yield from default_problems(spec, number, ("columns", name, "missing"))
        elif feature.dtype != "int64":
            limits = self.limits(spec)
            for i, (a, b) in enumerate(zip(limits, limits[1:])):
                if a == b:
                    yield Problem(
                        ("columns", name, "boundaries"),
                        f"no float32 lies between {self.boundaries[i]} at [{i}] and "
                        f"{self.boundaries[i + 1]} at [{i + 1}]. Remove one of the two, or store "
                        f"feature {number!r} as int64.",
                    )

    def features(self, spec: Entries) -> Iterator[str]:
        yield self.numeric(spec).source

    def id_count(self, spec: Entries) -> int:
        values = spec.features[self.numeric(spec).source].width
        return values * self.buckets

    def ids_meaning(self, spec: Entries) -> dict[str, Any]:
        numeric = self.numeric(spec)
        return {
            "kind": self.kind,
            "boundaries": self.boundaries,
            "missing": [self.missing, numeric.missing],
            "normalizer": numeric.model_dump(mode="json")["normalizer"],
            "numbers": spec.features[numeric.source].width,
        }

    def canned_name(self, spec: Entries, name: str) -> str:
        return f"{self.numeric(spec).source}_bucketized"

    def feature_column(self, reference: Reference, name: str) -> Any:
        tf, numeric = reference.tf, self.numeric(reference.spec)
        limits = self.limits(reference.spec)
        feature = reference.spec.features[numeric.source]
        if feature.dtype != "int64" and self.missing is None:
            source = numeric.feature_column(reference, self.source)
            return tf.feature_column.bucketized_column(source, list(limits))
        # `bucketized_column` compares float32 numbers. So the bucket becomes the number.
        source = tf.feature_column.numeric_column(
            numeric.source,
            shape=feature.number_shape or (1,),
            dtype=tf.as_dtype(feature.dtype),
            normalizer_fn=lambda values: tf.cast(
                self._buckets(reference, values, limits), tf.float32
            ),
        )
        return tf.feature_column.bucketized_column(source, list(range(1, self.buckets)))

    def _buckets(self, reference: Reference, values: Any, limits: Any) -> Any:
        """The bucket of each number of the feature, int32."""
        tf, numeric = reference.tf, self.numeric(reference.spec)
        feature = reference.spec.features[numeric.source]
        if feature.dtype == "int64":
            without_normalizer = numeric.model_copy(update={"normalizer": ()})
            replace = without_normalizer.normalized(reference)
            numbers = values if replace is None else replace(values)
            buckets = reference.integer_buckets(numbers, limits)
        else:
            normalize = numeric.normalized(reference)
            numbers = values if normalize is None else normalize(values)
            buckets = tf.raw_ops.Bucketize(input=numbers, boundaries=list(limits))
        if self.missing is None:
            return buckets
        is_missing = tf.equal(values, tf.constant(marker(feature), values.dtype))
        return tf.where(is_missing, self.buckets - 1, buckets)
