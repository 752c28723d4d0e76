"""The columns and features that are copied to predictions: `--keep_columns`.

    kept.check_features(names, spec, paths, damaged)
    for features in kept.of_files(names, spec, paths, damaged):     # {"user_id": b"ann"}
        ...

A feature that a record lacks is left out. Values are as the record stores them. This module reads
records and never changes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean
from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files import record_lists, tfrecords

# Records at a time.
_BATCH = 1024


def check_taken(names: Sequence[str], taken: Collection[str]) -> None:
    """Raises ConfigError if a column to keep has the name of a prediction."""
    for name in names:
        if name in taken:
            raise ConfigError(
                f"--keep_columns: {name!r} is also the name of a prediction. Rename the column."
            )


def check_features(
    names: Sequence[str],
    spec: Optional[FeatureSpec],
    paths: Sequence[str],
    damaged: tfrecords.Damaged,
) -> None:
    """Raises ConfigError if a feature is in no first record of a file, nor in the spec."""
    if not names:
        return
    lists = spec.feature_lists if spec is not None else ()
    for name in names:
        if name in lists:
            raise ConfigError(
                f"--keep_columns: {name!r} is a feature list, and the Examples of predictions "
                "have no feature lists. Keep a feature of the context."
            )
    feature_names = {*_stored_names(paths, damaged), *(spec.features if spec is not None else ())}
    check_known(names, feature_names, "the first records of the files have no feature {!r}")


def check_known(names: Sequence[str], known_names: Collection[str], sentence: str) -> None:
    """Raises ConfigError with the sentence about a name that is not known."""
    for name in names:
        if name not in known_names:
            hint = did_you_mean(name, sorted(set(known_names)))
            raise ConfigError(f"--keep_columns: {sentence.format(name)}{hint}")


def first_records(paths: Sequence[str], damaged: tfrecords.Damaged) -> dict[str, list[bytes]]:
    """`record_lists.first_records` of the files that are not empty; an error if all are empty."""
    filled = [path for path in paths if path in damaged or file_systems.stamp(path)[0]]
    return record_lists.first_records(filled or paths, damaged=damaged)


def of_files(
    names: Sequence[str], spec: FeatureSpec, paths: Sequence[str], damaged: tfrecords.Damaged
) -> Iterator[dict[str, Any]]:
    """Yields the features of each record of TFRecord files, in their order.

    A feature that the spec describes as a list is a list, also of one value.
    """
    lists = {name for name, feature in spec.features.items() if not feature.single}
    for records in record_lists.of_files(paths, damaged=damaged):
        for record in records:
            yield _features(names, lists, of_record(record))


def _features(
    names: Sequence[str], lists: Collection[str], stored: Mapping[str, Any]
) -> dict[str, Any]:
    """The features of a record with these names; those in `lists` are lists."""
    features: dict[str, Any] = {}
    for name in names:
        kind = stored[name].WhichOneof("kind") if name in stored else None
        if kind is not None:
            values = list(getattr(stored[name], kind).value)
            features[name] = values[0] if len(values) == 1 and name not in lists else values
        elif name in stored and name in lists:
            features[name] = []  # An empty list may have no type.
    return features


def of_record(record: bytes) -> Mapping[str, Any]:
    """The `tf.train.Feature`s of a record; of a SequenceExample, the features of its context."""
    # A SequenceExample stores its context in the field of an Example's features.
    features: Mapping[str, Any] = tf.train.Example.FromString(record).features.feature
    return features


def _stored_names(paths: Sequence[str], damaged: tfrecords.Damaged) -> set[str]:
    """The features of the first records of each file; of a SequenceExample, of its context."""
    stored_names: set[str] = set()
    for records in first_records(paths, damaged).values():
        for record in records:
            try:
                stored_names.update(of_record(record))
            except Exception as error:  # Protobuf's DecodeError; the prediction names the record.
                if type(error).__name__ != "DecodeError":
                    raise
    return stored_names
