"""Labels that come later: read from `--label_files`, and joined with rows of requests by a key.

    labels = LateLabels(spec)
    labels.read(paths, wanted={b"a1", b"a2"})
    joined = labels.join(keys, extras)
    joined["click"].labels, joined["click"].weights, joined["click"].present

A file has tf.train.Examples with the key and with labels. Features that a label needs, such as its
weight, may be there or in the request. The code of an evaluation reads the labels. Several records
with one key are one record: a later one adds labels, and replaces those that it has again. A row
without a label gets the number of `no_label_means`, or is not `present`. Only records with a wanted
key stay in memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from estimator_kit import tensorflow_errors
from estimator_kit.client import messages
from estimator_kit.model.heads import judged_labels
from estimator_kit.scoring import logged_answers
from estimator_kit.scoring.request_logs import has_dtype, values_of
from feature_specs.files import file_systems
from feature_specs.reference import columns
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.protobuf_records import NotAnExample
from input_pipelines.prepare.analyze.wire import parse_block
from input_pipelines.record_files import record_lists, tfrecords
from input_pipelines.transform import checks
from input_pipelines.transform.labels import LabelReader

# Rows whose labels are read together.
_ROWS = 4096


class Labeled(NamedTuple):
    """The labels of one objective.

    Attributes:
      labels: as `row_metric` takes them.
      weights: float64 [rows]; 0 without a label.
      present: bool [rows]: whether the row has a label, from a record or by `no_label_means`.
    """

    labels: NDArray[Any]
    weights: NDArray[np.float64]
    present: NDArray[np.bool_]


class LateLabels:
    """The labels of some keys.

    Args:
      spec: the feature spec, whose section `monitoring` has the key.
    """

    def __init__(self, spec: FeatureSpec):
        self._spec = spec
        self._reading = _with_optional_labels(spec)
        self._entries = columns.label_parse_dict(self._reading)
        self._reader = LabelReader(self._reading)
        self._records: dict[Any, bytes] = {}
        self._start = self._default_record()

    @property
    def carried(self) -> tuple[str, ...]:
        """The features of a request that its labels need."""
        return tuple(name for name in self._entries if name not in self._reading.labels)

    def read(self, paths: Sequence[str], wanted: Collection[Any]) -> None:
        """Reads the records with a wanted key.

        Raises:
          DataError: a file is damaged, or a record is not an Example, or has no key or a key of
            another type than in the spec.
        """
        key = self._spec.monitoring.key
        assert key is not None, "without a key, no label is read"
        for path in file_systems.ordered(paths):
            before = 0
            with tfrecords.naming_what_is_corrupt([path]):
                for records in record_lists.of_files([path]):
                    try:
                        features = parse_block(records)
                    except NotAnExample as error:
                        raise DataError(
                            f"{path}: record {before + error.row} is not a serialized "
                            "tf.train.Example. Name only records with labels in --label_files."
                        ) from error
                    for row, value in enumerate(values_of(features, key, len(records))):
                        self._check_key(value, f"{path}: record {before + row}")
                        if value in wanted:
                            # Two concatenated messages are one message with the fields of both.
                            self._records[value] = self._records.get(value, b"") + records[row]
                    before += len(records)

    def _check_key(self, value: Any, where: str) -> None:
        key = self._spec.monitoring.key or ""
        if value is None:
            raise DataError(
                f"{where}: expected one value of {key!r}, the key of the section monitoring, got "
                "none or several. Write the key into each record of --label_files."
            )
        dtype = self._spec.features[key].dtype
        if not has_dtype(value, dtype):
            raise DataError(
                f"{where}: expected a value of {key!r} with the type {dtype}, as in the spec, got "
                f"{value!r}. Write it with this type."
            )

    def have(self, keys: Sequence[Any]) -> NDArray[np.bool_]:
        """Which keys have a record with labels, bool [rows]."""
        return np.array([key in self._records for key in keys], np.bool_)

    def join(self, keys: Sequence[Any], extras: Sequence[bytes]) -> dict[str, Labeled]:
        """The labels of rows, by objective that has metrics of rows.

        Args:
          keys: the key of each row; None for a row without one.
          extras: an Example with the features `carried` of each row.

        Raises:
          DataError: labels cannot be read.
        """
        records = [
            self._start + extra + self._records.get(key, b"") for key, extra in zip(keys, extras)
        ]
        parts: dict[str, list[Labeled]] = {name: [] for name in logged_answers.judged(self._spec)}
        for start in range(0, len(records), _ROWS):
            part = slice(start, start + _ROWS)
            for name, labeled in self._read_labels(records[part], keys[part]).items():
                parts[name].append(labeled)
        return {
            name: Labeled(*(np.concatenate(column) for column in zip(*listed)))
            for name, listed in parts.items()
            if listed
        }

    def _read_labels(self, records: list[bytes], keys: Sequence[Any]) -> dict[str, Labeled]:
        try:
            parsed = tf.io.parse_example(tf.constant(records, tf.string), self._entries)
            labels = self._reader.read(dict(parsed))
        except checks.BAD_RECORD_ERRORS as error:
            middle = len(records) // 2
            for part in (slice(middle), slice(middle, None)) if middle else ():
                self._read_labels(records[part], keys[part])  # To name the row.
            reason = checks.text_of(error) or tensorflow_errors.reason(error)
            raise DataError(
                f"--label_files: the labels of the row whose {self._spec.monitoring.key} is "
                f"{_text_of_key(keys[0])} cannot be read: {reason}. Repair the record; a feature "
                "that a label needs must be in it or in the request."
            ) from error
        result = {}
        for name in logged_answers.judged(self._spec):
            label = self._spec.label_of(name)
            present = parsed[label].row_lengths().numpy() > 0
            values = judged_labels(self._spec.objectives[name], labels[label].numpy())
            weights = labels[f"{label}/weight"].numpy().astype(np.float64)
            result[name] = Labeled(values, weights * present, present)
        return result

    def _default_record(self) -> bytes:
        """An Example with the labels of `no_label_means`. A later field replaces its labels."""
        example = messages.message("tensorflow.Example")()
        for name, value in self._spec.monitoring.no_label_means.items():
            feature = example.features.feature[name]
            if self._spec.labels[name].dtype == "int64":
                feature.int64_list.value.append(int(value))
            else:
                feature.float_list.value.append(value)
        content: bytes = example.SerializeToString()
        return content


def _text_of_key(key: Any) -> str:
    return repr(key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else key)


def extras_of(records: Sequence[bytes], names: Sequence[str], *, in_context: bool) -> list[bytes]:
    """An Example for each record, with only some of its features.

    Args:
      records: serialized Examples, or SequenceExamples with `in_context`.
      names: the features.
      in_context: whether they are in the context of SequenceExamples.
    """
    if not names:
        return [b""] * len(records)
    example = messages.message("tensorflow.Example")
    whole = messages.message("tensorflow.SequenceExample") if in_context else example
    extras = []
    for record in records:
        message, kept = whole.FromString(record), example()
        features = (message.context if in_context else message.features).feature
        for name in names:
            if name in features:
                kept.features.feature[name].CopyFrom(features[name])
        extras.append(kept.SerializeToString())
    return extras


def _with_optional_labels(spec: FeatureSpec) -> FeatureSpec:
    """The spec for reading labels of judged objectives, of which a record may lack any."""
    objectives = {name: spec.objectives[name] for name in logged_answers.judged(spec)}
    learned = {spec.label_of(name) for name in objectives}
    learned |= {part.name for entry in objectives.values() for part in entry.label_parts}
    learned |= {spec.labels[name].weight or "" for name in learned if name in spec.labels}
    labels = {}
    for name, label in spec.labels.items():
        if name in learned and any(spec.label_of(each) == name for each in spec.objectives):
            missing: Optional[str] = label.missing or "mask"
            labels[name] = label.model_copy(update={"missing": missing, "true_probability": None})
    used = {name: entry for name, entry in spec.objectives.items() if spec.label_of(name) in labels}
    plain: Mapping[str, Any] = {
        name: entry.model_copy(update={"group_by": None})
        if getattr(entry, "group_by", None) is not None
        else entry
        for name, entry in used.items()
    }
    return dataclasses.replace(spec, labels=labels, objectives=plain)
