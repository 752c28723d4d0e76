"""The train-serve skew test: compares an export with the input pipeline and the model.

It compares features first, so that the message names the feature that differs, and then answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Optional

import numpy as np

from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import raw_feature

# The tolerance for numbers that a model reads: absolute, or relative above 1. Ids must be equal.
FEATURES = 1e-6

# The tolerance for answers. The order in which float32 numbers are added depends on the number of
# rows in a request: the logits of one small model differed by 1.2e-6 between 3 and 100 rows.
ANSWERS = 1e-5


class Skew(Exception):
    """The export answers differently; the message says where."""


def check_features(
    spec: FeatureSpec,
    expected: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    names: Mapping[str, tuple[str, ...]],
) -> None:
    """Compares what the model reads: ids and lengths exactly, numbers with tolerance `FEATURES`.

    Args:
      spec: the feature spec.
      expected: the features of the input pipeline, as a session returns them.
      tensors: tensors of the export by name.
      names: column -> the names of its tensors, in the order of `parts_of`.

    Raises:
      Skew: columns differ; the message has their features and the first row of each.
    """
    problems = []
    for column, value in expected.items():
        parts = parts_of(value)
        others = [tensors[name] for name in names[column]]
        where = _first_difference(parts, others)
        if where is not None:
            problems.append(f"  {_read(spec, column)}: {where}")
    if problems:
        listing = "\n".join(problems)
        raise Skew(f"the input pipeline and the export read these features differently:\n{listing}")


def _read(spec: FeatureSpec, column: str) -> str:
    """What an entry of `Features` was read from, for a message."""
    feature = raw_feature(column)
    if feature is not None:
        return f"the feature {feature}, in `raw`"
    features = sorted(set(spec.features_of(column.partition("/")[0])))
    return f"column {column!r} of the feature {', '.join(features)}"


def check_answers(
    expected: Mapping[str, np.ndarray],
    answers: Mapping[str, np.ndarray],
    what: str,
    tolerance: float = ANSWERS,
    sides: tuple[str, str] = ("through the input pipeline", "through the export"),
    units: Mapping[str, float] = MappingProxyType({}),
) -> float:
    """Compares outputs [rows, ...]; returns the largest difference of numbers.

    If the numbers of a row differ by less than the tolerance (in units, or relative above one
    unit), its ids and words may differ, because of ties. The unit is 1, or the one in `units_of`.

    Raises:
      Skew: an output differs; the message names the first one.
    """
    largest = 0.0
    equal: Any = True
    for key, value in expected.items():
        if value.dtype.kind != "f":
            continue
        value, other = _without_padding(value, answers[key], f"{what}, output {key!r}")
        difference = _difference(value, other, unit_of(key, units))
        if difference.size:
            row = int(np.argmax(difference.max(axis=tuple(range(1, difference.ndim)))))
            worst = float(difference[row].max())
            if worst > tolerance:
                raise Skew(
                    f"{what}: {key!r} of row {row} is {_short(value[row])} {sides[0]} and "
                    f"{_short(other[row])} {sides[1]}"
                )
            largest = max(largest, worst)
        alike = (value == other) | (np.isnan(value) & np.isnan(other))
        equal = equal & alike.reshape(len(value), -1).all(axis=1)
    for key, value in expected.items():
        if value.dtype.kind == "f":
            continue
        value, other = _without_padding(value, answers[key], f"{what}, output {key!r}")
        wrong = equal & ~(value == other).reshape(len(value), -1).all(axis=1)
        if np.any(wrong):
            row = int(np.argmax(wrong))
            raise Skew(
                f"{what}: {key!r} of row {row} is {_short(value[row])} {sides[0]} and "
                f"{_short(other[row])} {sides[1]}"
            )
    return largest


def units_of(spec: Optional[FeatureSpec]) -> dict[str, float]:
    """The unit of each objective whose head computes in a larger one than 1."""
    objectives = spec.objectives if spec is not None else {}
    return {name: head.unit for name, head in objectives.items() if head.unit > 1}


def unit_of(output: str, units: Mapping[str, float]) -> float:
    """The unit of an output `<objective>/<name>`, or of any output of a separate signature."""
    objective, slash, _ = output.partition("/")
    return units.get(objective, 1.0) if slash else max(units.values(), default=1.0)


def parts_of(value: Any) -> list[Any]:
    """The tensors of a feature: the feature, or the values and row splits of a ragged feature."""
    if hasattr(value, "nested_row_splits"):
        return [value.flat_values, *value.nested_row_splits]
    return [value]


def _without_padding(
    value: np.ndarray, other: np.ndarray, what: str
) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays [rows, ...] in one shape.

    Lists are padded to the longest list of a batch, so the same rows in another batch may have
    another width. Where only one array has values, all of them must be one value.
    """
    if value.shape == other.shape:
        return value, other
    if len(value.shape) == len(other.shape) and len(value) == len(other):
        common = tuple(map(slice, np.minimum(value.shape, other.shape)))
        if _is_padding(value, common) and _is_padding(other, common):
            return value[common], other[common]
    raise Skew(
        f"{what}: the shape is {value.shape} through the input pipeline and {other.shape} "
        "through the export"
    )


def _is_padding(value: np.ndarray, common: tuple[slice, ...]) -> bool:
    """Whether all values outside of `common` are equal."""
    outside = np.ones(value.shape, bool)
    outside[common] = False
    rest = value[outside]
    equal = rest == rest[:1]
    if value.dtype.kind == "f":
        equal |= np.isnan(rest) & np.isnan(rest[:1])
    return bool(np.all(equal))


def _difference(value: np.ndarray, other: np.ndarray, unit: float = 1.0) -> np.ndarray:
    value, other = value.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.abs(value - other) / np.maximum(unit, np.abs(value))
    same = (value == other) | (np.isnan(value) & np.isnan(other))
    difference = np.where(same, 0.0, difference)
    return np.where(np.isnan(difference), np.inf, difference)


def _first_difference(parts: list[Any], others: list[np.ndarray]) -> Optional[str]:
    values, *splits = (np.asarray(part) for part in parts)
    other, *other_splits = others
    for mine, its in zip(splits, other_splits):
        if mine.shape != its.shape or (mine != its).any():
            return "the lengths of its lists differ"
    if values.shape != other.shape:
        return f"its shape is {values.shape} in the input pipeline and {other.shape} in the export"
    wrong = values != other
    if values.dtype.kind == "f":
        wrong = _difference(values, other) > FEATURES
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    row = place[0]
    for lengths in reversed(splits):
        row = int(np.searchsorted(lengths, row, side="right")) - 1
    return (
        f"row {row} has {_short(values[place])} in the input pipeline and {_short(other[place])} "
        "in the export"
    )


def _short(value: Any) -> str:
    text = np.array2string(np.asarray(value), threshold=8, precision=9)
    return " ".join(text.split())
