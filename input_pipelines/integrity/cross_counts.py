"""Counts the different combinations of values in a crossed column, for `spec_check`.

A cross is counted if each of its keys has one value in a record: a feature, or an identity or
vocabulary column of one. Stored values are compared, so words outside a vocabulary count
separately although they share an id. Crosses of lists, buckets and other columns are not counted:
`CrossCounter.of` returns None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional

from feature_specs.kinds import Crossed
from feature_specs.spec import FeatureSpec
from input_pipelines.integrity import stored_records


class CrossCounter:
    """The different combinations in the records that were added so far.

    Args:
      spec: the feature spec.
      column: the cross. Use `of`, which makes a counter only if the cross can be counted.
    """

    def __init__(self, spec: FeatureSpec, column: Crossed):
        self._spec = spec
        self._keys = [(next(_features(spec, key)), key in spec.columns) for key in column.sources]
        self._seen: set[tuple[Any, ...]] = set()

    @staticmethod
    def of(spec: FeatureSpec, column: Crossed) -> Optional[CrossCounter]:
        """A counter, or None for a cross that cannot be counted."""
        for key in column.sources:
            source = spec.columns.get(key)
            if source is not None and not source.looks_up:
                return None
            if not spec.features[next(_features(spec, key))].single:
                return None
        return CrossCounter(spec, column)

    @property
    def different(self) -> int:
        return len(self._seen)

    def add(self, features: Mapping[str, Any]) -> None:
        """Adds a record in the form that `stored_records.read` returns. It must fit the spec."""
        combination = []
        for name, is_column in self._keys:
            values = stored_records.values(features.get(name))
            value = values[0] if values else self._spec.features[name].default
            value = value.encode() if isinstance(value, str) else value
            if is_column and value in (b"", -1):
                return  # A missing id has no cross. (A feature crosses even when it is empty.)
            combination.append(value)
        self._seen.add(tuple(combination))


def _features(spec: FeatureSpec, key: str) -> Iterator[str]:
    return spec.features_of(key) if key in spec.columns else iter((key,))
