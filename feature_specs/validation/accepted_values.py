"""The values of a label or feature that training accepts, beyond types and lengths.

    accepted_values.of_head(spec, "click")
    # Accepted(low=0, high=1, expected="0 or 1 for the binary head of objective 'click'")

Conversion checks tables with this module before they become records.
`input_pipelines.integrity.diagnosis` explains bad records with it, so both accept the same values.
`input_pipelines.transform.checks` has the checks in the input graph. This module never changes a
value and does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Optional

from feature_specs.kinds import Column
from feature_specs.kinds.normalizers import Normalizer
from feature_specs.spec import FeatureSpec


@dataclasses.dataclass(frozen=True)
class Accepted:
    """A set of values: the numbers between two bounds, or some words. Never NaN or infinity.

    Attributes:
      low, high: the smallest and the largest number. None means no bound.
      whole: whether the numbers must be integers, although the label may be a float32.
      missing: a number that stands for a missing value and is accepted, whatever else is set.
      words: the words of a string label.
      steps: normalizers whose result must be finite. `in` does not check them; see
        `input_pipelines.prepare.convert.value_checks.normalized`.
      expected: a description of the set, for messages, after "expected".
      remedy: a remedy other than correcting the value. Usually empty.
    """

    low: Optional[float] = None
    high: Optional[float] = None
    whole: bool = False
    missing: Optional[float] = None
    words: Optional[tuple[str, ...]] = None
    steps: tuple[Normalizer, ...] = ()
    expected: str = "a finite number"
    remedy: str = ""

    def __contains__(self, value: Any) -> bool:
        if self.words is not None:
            return value.decode(errors="replace") in self.words
        low = self.low is None or value >= self.low
        high = self.high is None or value <= self.high
        is_whole = not self.whole or value % 1 == 0
        return (low and high and is_whole) or (self.missing is not None and value == self.missing)


FINITE = Accepted()
WEIGHT = Accepted(low=0, expected="0 or more for the weight of a label")


def of_label(spec: FeatureSpec, name: str) -> Iterator[Accepted]:
    """The sets that the values of a label must be in. A label may also be a weight."""
    yield of_head(spec, name)
    if any(label.weight == name for label in spec.labels.values()):
        if spec.labels[name].dtype != "string":
            yield WEIGHT
    yield from of_parts(spec, name)


def of_head(spec: FeatureSpec, name: str) -> Accepted:
    """The values of a label that its head accepts."""
    label = spec.labels[name]
    objective = spec.objective_of(name)
    entry = spec.objectives[objective]
    of_head = f" for the {entry.head} head of objective {objective!r}"
    if label.vocabulary is not None:
        return Accepted(words=label.vocabulary, expected=f"one of {', '.join(label.vocabulary)}")
    items = entry.items_column
    if items is not None:
        return of_items(spec, items) or FINITE
    low, high = entry.label_bounds
    classes = entry.classes
    if label.variable and classes is not None:
        low, high = 0, classes - 1
    if low is None and high is None:
        return FINITE
    if high is None:
        return Accepted(low, None, expected=f"{low} or more{of_head}")
    expected = f"{low} to {high}"
    if classes is None:
        return Accepted(low, high, expected=expected + of_head)
    remedy = ""
    if (low, high) == (0, 1):
        expected = "0 or 1"
        if not entry.lists_classes and label.dtype == "float32":
            remedy = "use the head logistic_regression for numbers between 0 and 1"
    return Accepted(low, high, whole=True, expected=expected + of_head, remedy=remedy)


def of_parts(spec: FeatureSpec, name: str) -> Iterator[Accepted]:
    """The sets that a feature or label must be in as a part of other labels."""
    for objective, part in spec.parts_named(name):
        low, high = part.bounds
        expected = f"{low} or more" if high is None else f"{low} or {high}"
        yield Accepted(low, high, expected=f"{expected} for the {part.field} of {objective!r}")


def of_items(spec: FeatureSpec, items: str) -> Optional[Accepted]:
    """The values of a label that a column accepts as ids, or None if it accepts all values.

    -1 is a step without an item.
    """
    (source,) = spec.features_of(items)
    accepted = of_ids(spec, source, spec.columns[items])
    return None if accepted is None else dataclasses.replace(accepted, missing=-1)


def of_ids(spec: FeatureSpec, name: str, column: Column) -> Optional[Accepted]:
    """The values of a feature that a column accepts as ids, or None.

    None means that the column accepts all values, as an identity column with a `default_id` does,
    or that it does not read the feature.
    """
    if column.id_bounds is None or name not in column.features(spec):
        return None
    low, high = column.id_bounds
    missing = -1 if spec.features[name].single else None
    return Accepted(
        low,
        high,
        missing=missing,
        expected=f"{low} to {high}",
        remedy="raise the column's size or give it a default_id",
    )


def of_feature(spec: FeatureSpec, name: str) -> Iterator[Accepted]:
    """The sets that the values of a feature must be in."""
    used = set(spec.used_columns())
    read = (*spec.used_features(), *spec.filter_features())
    if spec.features[name].dtype == "float32" and name in read:
        yield FINITE
    if any(label.weight == name for label in spec.labels.values()):
        yield WEIGHT
    yield from of_parts(spec, name)
    yield from of_normalizers(spec, name)
    for at, column in spec.columns.items():
        accepted = of_ids(spec, name, column)
        if accepted is not None and not used.isdisjoint(spec.made_from(at)):
            yield accepted


def of_normalizers(spec: FeatureSpec, name: str) -> Iterator[Accepted]:
    """The sets of numbers that the normalizers of columns turn into finite float32 numbers."""
    if name not in spec.used_features() or spec.features[name].decode is not None:
        return
    for at, column in spec.columns.items():
        steps = column.normalizers
        if steps and name in column.features(spec):
            missing = column.missing_value(spec.features[name])
            yield Accepted(
                steps=steps,
                missing=None if isinstance(missing, str) else missing,
                expected=f"a number that column {at!r} normalizes to a finite number",
                remedy="clip it first, or change the normalizer",
            )


def equal_lengths(spec: FeatureSpec, name: str) -> tuple[str, ...]:
    """The features that must have as many values as this feature or label in every row."""
    others: list[str] = []
    if name in spec.labels:
        items = spec.items_of_label(name)
        return () if items is None else tuple(spec.features_of(items))
    for used in spec.used_columns():
        column = spec.category_of(used)[1]
        if column.weighted_by == name:
            others.append(next(column.features(spec)))
    for names in spec.groups.values():
        steps = [f for n in names if spec.is_sequence(n) for f in spec.features_of(n)]
        if name in steps:
            others.append(steps[0])
    return tuple(dict.fromkeys(other for other in others if other != name))
