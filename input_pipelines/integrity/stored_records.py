"""Reads one record in Python: its features by name, for an Example or a SequenceExample.

This is for single records (`diagnosis`, `spec_check`, the start of a run), never for training.

In general the two messages cannot be distinguished: `Example.features` and
`SequenceExample.context` are both field 1, and each parser ignores unknown fields. An Example that
is read as a SequenceExample silently has no feature lists. A SequenceExample that is read as an
Example silently loses them. Two facts reveal the kind of a record. Only a SequenceExample has field
2, `feature_lists`. If a record lacks this field but has a feature with the name of one of the
spec's feature lists, it was written as an Example. `record_parsing` does the same for batches.

`CrossCounter` counts the different combinations of values in a crossed column, for `spec_check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf
from google.protobuf.message import DecodeError

from feature_specs.errors import counted
from feature_specs.feature import Feature
from feature_specs.kinds import Crossed
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError

DTYPE_OF_LIST = {"float_list": "float32", "int64_list": "int64", "bytes_list": "string"}


class RecordError(ValueError):
    """What is wrong with one record; the message is the end of a sentence that names it."""


def read(spec: FeatureSpec, record: bytes) -> dict[str, Any]:
    """The `tf.train.Feature`s of a serialized record, by name.

    A feature list that the spec uses becomes one Feature with the values of all its steps.

    Raises:
      RecordError: the record is not of the spec's kind, a step does not have exactly one value
        (unless it is a list itself), or a step has another type than the spec says.
    """
    parsed = _parsed(record, "SequenceExample" if spec.sequence_examples else "Example")
    wrong = wrong_kind(spec, parsed)
    if wrong:
        raise RecordError(wrong)
    context: Mapping[str, Any] = parsed.context.feature
    features = {n: f for n, f in context.items() if n not in spec.feature_lists}
    for name in spec.used_features():
        if name in parsed.feature_lists.feature_list and spec.features[name].feature_list:
            steps = parsed.feature_lists.feature_list[name].feature
            features[name] = _joined(name, spec.features[name], steps)
    if spec.sequence_examples:
        _check_defaults(spec, features)
    return features


def wrong_kind(spec: FeatureSpec, record: Any) -> Optional[str]:
    """Why a record, parsed as a SequenceExample, has the wrong kind for the spec.

    Returns None if the kind is right, or if nothing in the record reveals its kind.
    """
    lists = list(record.feature_lists.feature_list)
    if not spec.sequence_examples:
        if not lists:
            return None
        return (
            f"is a tf.train.SequenceExample (it has feature_lists: {_some(lists)}), but the spec "
            "describes tf.train.Examples, so these lists would be lost; declare them as features "
            "with feature_list: true, and list unused ones under ignored"
        )
    stored = record.context.feature
    inside = [name for name in spec.feature_lists if name in stored and values(stored[name])]
    if record.feature_lists.feature_list or not inside:
        return None
    return (
        f"seems to be a tf.train.Example: it has no feature_lists, but {_some(inside)} among its "
        "features; the spec declares these with feature_list: true, so they would be empty; use "
        "shape: variable instead"
    )


def check_kind(spec: FeatureSpec, records: Mapping[str, Sequence[bytes]]) -> None:
    """Checks the kind of some records of each file before a run reads them in the wrong way.

    Args:
      spec: the feature spec.
      records: serialized records of each file, as `record_lists.first_records` returns them.

    Raises:
      DataError: a record has a different kind than the spec.
    """
    for path, some in records.items():
        for number, record in enumerate(some):
            try:
                reason = wrong_kind(spec, tf.train.SequenceExample.FromString(record))
            except DecodeError:
                continue  # The run itself reports the bad record.
            if reason:
                raise DataError(f"{path}: record {number}: {reason}")


def values(stored: Any) -> Any:
    """The values of a `tf.train.Feature` of any type; an empty list for None."""
    kind = stored.WhichOneof("kind") if stored is not None else None
    return getattr(stored, kind).value if kind else []


def _parsed(record: bytes, kind: str) -> Any:
    """A record as a SequenceExample. An Example becomes one that has only a context."""
    try:
        return tf.train.SequenceExample.FromString(record)
    except DecodeError:
        pass
    if kind == "Example":  # It may have an unknown field where a SequenceExample has its lists.
        try:
            features = tf.train.Example.FromString(record).features
            return tf.train.SequenceExample(context=features)
        except DecodeError:
            pass
    raise RecordError(f"is not a serialized tf.train.{kind}")


def _check_defaults(spec: FeatureSpec, features: Mapping[str, Any]) -> None:
    for name, feature in spec.features.items():
        empty = name in features and not values(features[name])
        if empty and feature.default is not None and name not in spec.ignored:
            raise RecordError(
                f"feature {name!r} is in the context without a value; TensorFlow's parser uses the "
                "default only if a feature is absent from the context: leave it out of the record"
            )


def _joined(name: str, feature: Feature, steps: Sequence[Any]) -> Any:
    joined = tf.train.Feature()
    for number, step in enumerate(steps):
        step_values = values(step)
        if not step_values and feature.nested:
            continue
        if len(step_values) != 1 and not feature.nested:
            raise RecordError(
                f"feature {name!r} has {counted(len(step_values), 'value')} in step {number} of "
                "its feature list, expected 1"
            )
        kind = step.WhichOneof("kind")
        if DTYPE_OF_LIST[kind] != feature.dtype:
            raise RecordError(
                f"feature {name!r} is {DTYPE_OF_LIST[kind]} in step {number} of its feature list, "
                f"expected {feature.dtype}"
            )
        joined.MergeFrom(step)  # Appends the values.
    return joined


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


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
            stored = values(features.get(name))
            value = stored[0] if stored else self._spec.features[name].default
            value = value.encode() if isinstance(value, str) else value
            if is_column and value in (b"", -1):
                return  # A missing id has no cross. (A feature crosses even when it is empty.)
            combination.append(value)
        self._seen.add(tuple(combination))


def _features(spec: FeatureSpec, key: str) -> Iterator[str]:
    return spec.features_of(key) if key in spec.columns else iter((key,))
