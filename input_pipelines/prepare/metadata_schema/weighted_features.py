"""Converts weighted features of a Schema to weighted columns of a spec, and back.

A WeightedFeature names a list of values and a list with one weight for each value. A `weighted`
column reads the same. If the spec does not have two such lists, the weighted feature is reported as
lost.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from feature_specs.entry import NAME_PATTERN
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.analyze.columns import Choice, Entry
from input_pipelines.prepare.metadata_schema.feature_reading import Reading
from input_pipelines.prepare.metadata_schema.proto import one_line


def add_columns(schema: Any, readings: dict[str, Reading], choices: dict[str, Choice]) -> list[str]:
    """Adds a column for each weighted feature to `choices`, and returns the lost ones."""
    lost = []
    taken = {*readings, *(column.name for choice in choices.values() for column in choice.columns)}
    for message in schema.weighted_feature:
        base, weight = _only_step(message.feature), _only_step(message.weight_feature)
        reason = _reason(message.name, base, weight, readings, choices, taken)
        if reason:
            lost.append(f"weighted_feature {one_line(message)}: {reason}")
            continue
        taken.add(message.name)
        value = {"weighted": base, "weight": weight}
        column = Entry(message.name, value, "a weighted feature of the Schema")
        choice = choices[base]
        choices[base] = dataclasses.replace(
            choice, columns=(*choice.columns, column), wide=(*choice.wide, column.name)
        )
        choices[weight] = dataclasses.replace(choices[weight], ignored=False, why="")
    return lost


def _only_step(path: Any) -> str:
    """The feature that a path names. A path with several steps matches no feature of a spec."""
    return " / ".join(path.step)


def _reason(
    name: str,
    base: str,
    weight: str,
    readings: dict[str, Reading],
    choices: dict[str, Choice],
    taken: set[str],
) -> str:
    """Why a weighted feature cannot become a column, or an empty string."""
    if not re.fullmatch(NAME_PATTERN, name) or name in taken:
        return "a column cannot have its name"
    for feature in (base, weight):
        if feature not in choices or choices[feature].feature is None:
            return f"{feature!r} is not a feature of the spec"
    if base not in choices[base].wide or readings[base].shape != "variable":
        return f"{base!r} is not a list of categories"
    if readings[weight].dtype != "float32" or readings[weight].shape != "variable":
        return f"{weight!r} is not a list of numbers"
    return ""


def add_messages(schema: Any, spec: FeatureSpec) -> Iterator[str]:
    """Adds the weighted columns of a spec to a Schema, and yields their names."""
    for name, column in spec.columns.items():
        weight = column.weighted_by
        if weight is not None and name not in spec.features and name not in spec.labels:
            message = schema.weighted_feature.add(name=name)
            message.feature.step.append(next(column.features(spec)))
            message.weight_feature.step.append(weight)
            yield name
