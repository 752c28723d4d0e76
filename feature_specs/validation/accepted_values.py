"""Which values of a label or feature training accepts, beyond types and lengths.

    accepted_values.of_head(spec, "click")
    # Accepted(low=0, high=1, expected="0 or 1 for the binary head of objective 'click'")

Conversion checks tables with it before they become records, and
`input_pipelines.integrity.diagnosis`
explains a bad record with it, so the two agree on a verdict. The checks in the input graph are
`input_pipelines.transform.checks`. Never changes a value. Imports no TensorFlow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Optional

from feature_specs.kinds import Column
from feature_specs.spec import FeatureSpec


@dataclasses.dataclass(frozen=True)
class Accepted:
    """A set of values: all between two bounds, or some words. NaN and infinity are never in it.

    Attributes:
      low, high: the smallest and the largest number; None is no bound.
      missing: a number outside the bounds that stands for a missing value, and is accepted.
      words: for a label of words, all that there are.
      expected: the set in words, as errors say it after "expected".
      remedy: what else than the value a user may correct; mostly empty.
    """

    low: Optional[float] = None
    high: Optional[float] = None
    missing: Optional[int] = None
    words: Optional[tuple[str, ...]] = None
    expected: str = "a finite number"
    remedy: str = ""

    def __contains__(self, value: Any) -> bool:
        if self.words is not None:
            return value.decode(errors="replace") in self.words
        low = self.low is None or value >= self.low
        high = self.high is None or value <= self.high
        return (low and high) or (self.missing is not None and value == self.missing)


FINITE = Accepted()
WEIGHT = Accepted(low=0, expected="0 or more for the weight of a label")


def of_label(spec: FeatureSpec, name: str) -> Iterator[Accepted]:
    """The sets that the values of a label must all be in; it may weigh another label."""
    yield of_head(spec, name)
    if any(label.weight == name for label in spec.labels.values()):
        if spec.labels[name].dtype != "string":
            yield WEIGHT


def of_head(spec: FeatureSpec, name: str) -> Accepted:
    """The values of a label that the head which learns it accepts."""
    label = spec.labels[name]
    objective = spec.objective_of(name)
    entry = spec.objectives[objective]
    of_head = f" for the {entry.head} head of objective {objective!r}"
    if label.vocabulary is not None:
        return Accepted(words=label.vocabulary, expected=f"one of {', '.join(label.vocabulary)}")
    low, high = entry.label_bounds
    classes = entry.classes
    if label.variable and classes is not None:
        low, high = 0, classes - 1
    if low is None and high is None:
        return FINITE
    if high is None:
        return Accepted(low, None, expected=f"{low} or more{of_head}")
    two = entry.head in ("binary", "multi_class") and classes == 2
    expected = "0 or 1" if two else f"{low} to {high}"
    return Accepted(low, high, expected=expected + of_head)


def of_ids(spec: FeatureSpec, name: str, column: Column) -> Optional[Accepted]:
    """The values of a feature that a column takes as ids; None if it takes all, or reads none.

    An identity column takes all with a `default_id`.
    """
    if column.id_bounds is None or name not in column.features(spec):
        return None
    low, high = column.id_bounds
    missing = -1 if spec.features[name].single else None
    return Accepted(
        low,
        high,
        missing,
        expected=f"{low} to {high}",
        remedy="raise the column's size or give it a default_id",
    )


def of_feature(spec: FeatureSpec, name: str) -> Iterator[Accepted]:
    """The sets that the values of a feature must all be in."""
    used = set(spec.used_columns())
    read = (*spec.used_features(), *spec.filter_features())
    if spec.features[name].dtype == "float32" and name in read:
        yield FINITE
    if any(label.weight == name for label in spec.labels.values()):
        yield WEIGHT
    for at, column in spec.columns.items():
        accepted = of_ids(spec, name, column)
        if accepted is not None and not used.isdisjoint(spec.made_from(at)):
            yield accepted


def equal_lengths(spec: FeatureSpec, name: str) -> tuple[str, ...]:
    """The features of which every row must have as many values as of this one."""
    found: list[str] = []
    for used in spec.used_columns():
        column = spec.category_of(used)[1]
        if column.weighted_by == name:
            found.append(next(column.features(spec)))
    for names in spec.groups.values():
        steps = [f for n in names if spec.is_sequence(n) for f in spec.features_of(n)]
        if name in steps:
            found.append(steps[0])
    return tuple(dict.fromkeys(other for other in found if other != name))
