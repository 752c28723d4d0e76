"""One record in Python: its features by name, whether it is an Example or a SequenceExample.

For looking at single records (`diagnosis`, `spec_check`, the start of a run), never for training.

The two messages cannot be told apart in general: `Example.features` and `SequenceExample.context`
are both field 1, and either parser passes over what it does not know. An Example read as a
SequenceExample silently has no feature lists; a SequenceExample read as an Example silently loses
them. What gives a record away: only a SequenceExample has field 2, `feature_lists`; and a record
without it that has one of the spec's feature lists among its features was written as an Example.
`record_kind` is the same for whole batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf
from google.protobuf.message import DecodeError

from feature_specs.feature import Feature
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError

DTYPE_OF_LIST = {"float_list": "float32", "int64_list": "int64", "bytes_list": "string"}


class RecordError(ValueError):
    """What is wrong with one record; the message is the end of a sentence that names it."""


def read(spec: FeatureSpec, record: bytes) -> dict[str, Any]:
    """The `tf.train.Feature`s of a serialized record, by name.

    A feature list that the spec uses is given as one Feature with the values of all its steps.

    Raises:
      RecordError: the record is not of the spec's kind, or a step has another number of values than
        one (where it is no list itself), or another type than the spec says.
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
    """Why a record, parsed as a SequenceExample, is none of the spec's; None if it may be one.

    None is also the answer for a record of the wrong kind in which nothing gives it away.
    """
    lists = list(record.feature_lists.feature_list)
    if not spec.sequence_examples:
        if not lists:
            return None
        return (
            f"is a tf.train.SequenceExample (it has feature_lists: {_some(lists)}), and the spec "
            "reads tf.train.Examples, in which these would be lost; declare them as features "
            "with feature_list: true, those that are not used under ignored too"
        )
    stored = record.context.feature
    inside = [name for name in spec.feature_lists if name in stored and values(stored[name])]
    if record.feature_lists.feature_list or not inside:
        return None
    return (
        f"is a tf.train.Example, as it seems: it has no feature_lists, but {_some(inside)} among "
        "its features; the spec says feature_list: true there and so reads SequenceExamples, in "
        "which these would be empty: say shape: variable instead"
    )


def check_kind(spec: FeatureSpec, records: Mapping[str, Sequence[bytes]]) -> None:
    """Looks at some records of each file, before a run would read them the wrong way.

    Args:
      spec: the feature spec.
      records: serialized ones by file, as `tfrecords.first_records` gives them.

    Raises:
      DataError: one is of the other kind than the spec's.
    """
    for path, some in records.items():
        for number, record in enumerate(some):
            try:
                reason = wrong_kind(spec, tf.train.SequenceExample.FromString(record))
            except DecodeError:
                continue  # The run itself will say so.
            if reason:
                raise DataError(f"{path}: record {number}: {reason}")


def values(stored: Any) -> Any:
    """The values of a `tf.train.Feature`, of whatever type; none for None."""
    kind = stored.WhichOneof("kind") if stored is not None else None
    return getattr(stored, kind).value if kind else []


def _parsed(record: bytes, kind: str) -> Any:
    """A record as a SequenceExample, which an Example is one of: with a context alone."""
    try:
        return tf.train.SequenceExample.FromString(record)
    except DecodeError:
        pass
    if kind == "Example":  # With something of its own where a SequenceExample has its lists.
        try:
            features = tf.train.Example.FromString(record).features
            return tf.train.SequenceExample(context=features)
        except DecodeError:
            pass
    raise RecordError(f"is no serialized tf.train.{kind}")


def _check_defaults(spec: FeatureSpec, features: Mapping[str, Any]) -> None:
    for name, feature in spec.features.items():
        empty = name in features and not values(features[name])
        if empty and feature.default is not None and name not in spec.ignored:
            raise RecordError(
                f"feature {name!r} is in the context without a value; there TensorFlow's parser "
                "gives the default to an absent feature alone: leave it out of the record"
            )


def _joined(name: str, feature: Feature, steps: Sequence[Any]) -> Any:
    joined = tf.train.Feature()
    for number, step in enumerate(steps):
        found = values(step)
        if not found and feature.nested:
            continue
        if len(found) != 1 and not feature.nested:
            raise RecordError(
                f"feature {name!r} has {len(found)} values in step {number} of its feature list, "
                "expected 1"
            )
        kind = step.WhichOneof("kind")
        if DTYPE_OF_LIST[kind] != feature.dtype:
            raise RecordError(
                f"feature {name!r} is {DTYPE_OF_LIST[kind]} in step {number} of its feature list, "
                f"expected {feature.dtype}"
            )
        joined.MergeFrom(step)  # Adds its values to those before.
    return joined


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
