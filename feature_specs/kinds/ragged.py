"""The kind `ragged`: a list, or a list of lists. Does not import TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Optional

from pydantic import Field

from feature_specs.errors import Problem, unknown
from feature_specs.kinds.base import Entries, Reference, Sourced, path_to
from feature_specs.kinds.normalizers import Normalizers


class Ragged(Sourced):
    """A list, or a list of lists, of numbers or ids, for your own model.

    The built-in models do not read ragged columns. Your model gets a `tf.RaggedTensor`.
    """

    changes = "values"

    kind = "ragged"
    ragged = True
    source: str = Field(
        alias="ragged",
        description="The name of a feature that is a list of numbers, or of an `identity`, "
        "`vocabulary` or `hash_bucket` column over a list.",
    )
    normalizer: Normalizers = Field(
        (),
        description="One normalizer, or a list of normalizers that are applied in order: `log1p`, "
        "`zscore`, `minmax` and `clip`. Only for numbers.",
    )

    def source_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path = path_to(self, name)
        source, feature = spec.columns.get(self.source), spec.features.get(self.source)
        if source is not None and source.categorical:
            yield from self._id_problems(spec, name)
        elif feature is None and source is not None and self.source != name:
            yield Problem(
                path,
                f"column {self.source!r} is {source.kind}, expected an identity, vocabulary or "
                "hash_bucket column, or a feature of numbers",
            )
        elif feature is None:
            choices = [*(n for n, c in spec.columns.items() if c.categorical), *spec.features]
            yield unknown(
                path, self.source, "a categorical column or a feature of numbers", choices
            )
        elif feature.dtype == "string" or not feature.variable:
            hint = ". For words, make a ragged column of a hash_bucket or vocabulary column."
            yield Problem(
                path,
                f"feature {self.source!r} is {feature.dtype} with {feature.form}, expected "
                "numbers with shape: variable or feature_list: true"
                + hint
                * (feature.dtype == "string" and feature.variable),
            )

    def _id_problems(self, spec: Entries, name: str) -> Iterator[Problem]:
        path, source = path_to(self, name), spec.columns[self.source]
        if not source.looks_up:
            yield Problem(
                path,
                f"column {self.source!r} is {source.kind}, expected an identity, vocabulary or "
                "hash_bucket column",
            )
            return
        if self.normalizer:
            yield Problem(
                ("columns", name, "normalizer"),
                f"column {self.source!r} has ids, which cannot be normalized. Remove normalizer.",
            )
        feature = spec.features.get(next(source.features(spec)))
        if feature is not None and not feature.variable:
            yield Problem(
                path,
                f"column {self.source!r} has one value per record, expected a list. Declare its "
                "feature with shape: variable.",
            )

    def category(self, spec: Entries) -> Optional[str]:
        # A categorical column hides a feature of the same name.
        source = spec.columns.get(self.source)
        return self.source if source is not None and source.categorical else None

    def below(self, spec: Entries) -> tuple[str, ...]:
        category = self.category(spec)
        return () if category is None else (category,)

    def features(self, spec: Entries) -> Iterator[str]:
        category = self.category(spec)
        if category is None:
            yield self.source
        else:
            yield from spec.columns[category].features(spec)

    def canned_name(self, spec: Entries, name: str) -> str:
        return name

    def feature_column(self, reference: Reference, name: str) -> NoReturn:
        raise ValueError(
            f"{reference.spec.source}: column {name!r} is ragged, and tf.feature_column has no "
            "such column. Read the feature in your own model, or make an embedding with a combiner "
            "of its ids."
        )

    def meaning(self, spec: Entries) -> Any:
        return [self.own_meaning(), []]  # Only the user's model knows what its ids mean.
