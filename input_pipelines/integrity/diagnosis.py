"""Finds the record that stopped a run, after the run has failed.

To be fast, training parses whole batches and does not keep file names, so its errors name at most a
feature. This module reads the same files again, in order, until they cannot be read or the same
parse and transform fails. Then it checks this one record in Python. It only reads files, and takes
at most about as long as reading one epoch. `data_scan` finds all bad records in this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.errors import counted
from feature_specs.feature import Feature
from feature_specs.files import file_systems
from feature_specs.heads.base import LabelPart
from feature_specs.kinds import Column
from feature_specs.label import Label
from feature_specs.spec import FeatureSpec
from feature_specs.validation import accepted_values
from input_pipelines.integrity import stored_records
from input_pipelines.integrity.file_check import FileCheck
from input_pipelines.prepare.convert.value_checks import normalized
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.transform import record_parsing, transforms
from input_pipelines.transform.transforms import Transform

CheckLabels = Callable[[Mapping[str, tf.Tensor]], Any]


def find_bad_record(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    with_labels: bool = True,
    filtered: Optional[bool] = None,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    also: Optional[CheckLabels] = None,
    remedy: Optional[str] = None,
) -> Optional[str]:
    """A sentence that names the first bad record: file, number from 0, byte, what is wrong.

    Returns None if every record of the files can be read and transformed without an error.

    Args:
      spec: the feature spec.
      files: paths; they are read in sorted order.
      with_labels: whether the run also read labels.
      filtered: whether the run read only the records that the spec's filter keeps. By default, as
        `with_labels`.
      damaged: files whose bad records the run skipped. They are not checked.
      also: called with the labels of records, to raise errors like `checks`. Used only with
        `with_labels`.
      remedy: see `explain`.
    """
    with tf.init_scope():
        check = file_check(
            spec, with_labels=with_labels, filtered=filtered, also=also, remedy=remedy
        )
        for path in file_systems.ordered(files):
            bad_record = check.first_bad(path) if path not in damaged else None
            if bad_record is not None:
                return f"{path}: {bad_record.sentence}"
    return None


def file_check(
    spec: FeatureSpec,
    *,
    with_labels: bool = True,
    filtered: Optional[bool] = None,
    compiled: bool = False,
    also: Optional[CheckLabels] = None,
    remedy: Optional[str] = None,
) -> FileCheck:
    """Makes a check that finds the records that would stop a run.

    Call this where TensorFlow executes eagerly. `compiled` pays off after some thousand records.
    If `filtered`, records that the spec's `filter` drops are not checked further. For the other
    arguments see `find_bad_record`.
    """
    transform = Transform(spec)
    selection = Selection(spec)
    filtered = with_labels if filtered is None else filtered

    def function(records: tf.Tensor) -> Any:
        kept = selection.passing(records) if filtered else records
        if not with_labels:
            return transform.features(record_parsing.checked(spec, kept))
        features, labels = transform.features_and_labels(kept)
        if also is not None:
            also(labels)
        return features, labels

    def reason(record: bytes) -> Optional[str]:
        return explain(spec, record, with_labels=with_labels, filtered=filtered, remedy=remedy)

    if not compiled:
        return FileCheck(function, reason)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def all_values(block: tf.Tensor) -> Any:
        # Return all values, so that TensorFlow does not prune any of them from the graph.
        return tf.nest.flatten(function(block), expand_composites=True)

    return FileCheck(all_values, reason)


def explain(
    spec: FeatureSpec,
    record: bytes,
    *,
    with_labels: bool = True,
    filtered: Optional[bool] = None,
    remedy: Optional[str] = None,
) -> Optional[str]:
    """What is wrong with one serialized record, or None if these checks find nothing.

    Args:
      spec: the feature spec.
      record: the serialized record.
      with_labels: whether the record needs labels.
      filtered: whether the record needs the features of the spec's filter. By default, as
        `with_labels`.
      remedy: what a user can do about a record that lacks a value, or has an id that a column does
        not accept. The default is a change of the spec, which is not possible if the spec belongs
        to an export.
    """
    try:
        features = stored_records.read(spec, record)
    except stored_records.RecordError as error:
        return str(error)
    filtered = with_labels if filtered is None else filtered
    deciding = spec.filter_features() if filtered else ()
    for name in dict.fromkeys([*spec.used_features(), *deciding]):
        what, stored = f"feature {name!r}", features.get(name)
        reason = _feature_reason(what, spec.features[name], stored, remedy)
        reason = reason or _value_reason(spec, name, stored, remedy)
        if reason:
            return reason
    for name in spec.used_features():
        reason = _lengths_reason(name, spec.features[name], features)
        if reason:
            return reason
    for column in spec.columns.values():
        reason = _weights_reason(spec, column, features)
        if reason:
            return reason
    reason = _steps_reason(spec, features)
    if reason:
        return reason
    if with_labels:
        for name in {o.group: None for o in spec.objectives.values() if o.group is not None}:
            stored = features.get(name)
            reason = _feature_reason(f"feature {name!r}", spec.features[name], stored, remedy)
            if reason:
                return reason
        for name, label in spec.labels.items():
            reason = _label_reason(spec, name, label, features, remedy)
            if reason:
                return reason
    return None


def _feature_reason(
    what: str, feature: Feature, stored: Any, remedy: Optional[str]
) -> Optional[str]:
    kind = stored.WhichOneof("kind") if stored is not None else None
    values = stored_records.values(stored)
    if feature.feature_list and feature.is_required and stored is None:
        if remedy is not None:
            return f"{what} is missing from its feature_lists. {remedy}"
        return (
            f"{what} is missing from its feature_lists, and the spec says required: true; remove "
            "that if records may lack it (and if these are tf.train.Examples, which have no "
            "feature_lists, use shape: variable instead of feature_list: true)"
        )
    if kind is not None and not values:
        dtype = stored_records.DTYPE_OF_LIST[kind]
        if dtype != feature.dtype and not feature.feature_list:
            return f"{what} is an empty list of {dtype}, expected {feature.dtype}"
        if not feature.variable and not feature.is_required:
            return (
                f"{what} is an empty list. TensorFlow uses the default only if a record lacks the "
                "feature, so leave it out of the record"
            )
    if not values:
        if feature.is_required and not feature.feature_list:
            if remedy is not None:
                return f"{what} is missing. {remedy}"
            return (
                f"{what} is missing, and it has no default in the spec; "
                "give it one if records may lack it"
            )
        return None
    dtype = stored_records.DTYPE_OF_LIST[kind] if kind is not None else feature.dtype
    if dtype != feature.dtype:
        return f"{what} is {dtype}, expected {feature.dtype}"
    if not feature.variable and len(values) != feature.length:
        return f"{what} has {counted(len(values), 'value')}, expected {feature.length}"
    if feature.decode is not None:
        return transforms.reason(what, feature, values[0])
    if feature.dtype == "float32":
        for value in values:
            if not math.isfinite(value):
                return f"{what} is {value}, expected a finite number"
    return None


def _value_reason(
    spec: FeatureSpec, name: str, stored: Any, remedy: Optional[str]
) -> Optional[str]:
    stored_values = stored_records.values(stored)
    for column in spec.columns.values():
        accepted = accepted_values.of_ids(spec, name, column)
        if accepted is not None:
            for value in stored_values:
                if value not in accepted:
                    reason = f"feature {name!r} is {value}, expected {accepted.expected}"
                    if remedy is not None:
                        return f"{reason}. {remedy}"
                    return f"{reason}; {accepted.remedy}"
    for accepted in accepted_values.of_normalizers(spec, name):
        default = spec.features[name].default
        missing = not stored_values and default is not None
        values = np.array([default] if missing else stored_values, spec.features[name].dtype)
        good = np.isfinite(normalized(accepted.steps, values))
        if accepted.missing is not None:
            good |= values == accepted.missing
        wrong = np.flatnonzero(~good)
        if len(wrong):
            what = "is missing, and its default is" if missing else "is"
            return f"feature {name!r} {what} {values[wrong[0]]}, expected {accepted.expected}"
    return None


def _lengths_reason(name: str, feature: Feature, features: Any) -> Optional[str]:
    if feature.row_lengths is None:
        return None
    lengths = list(stored_records.values(features.get(feature.row_lengths)))
    count = len(stored_records.values(features.get(name)))
    if any(length < 0 for length in lengths):
        return f"feature {feature.row_lengths!r} is {min(lengths)}, expected a length of 0 or more"
    if sum(lengths) != count:
        return (
            f"feature {name!r} has {counted(count, 'value')}, but its row_lengths "
            f"{feature.row_lengths!r} add up to {sum(lengths)}"
        )
    return None


def _weights_reason(spec: FeatureSpec, column: Column, features: Any) -> Optional[str]:
    if column.weighted_by is None:
        return None
    source = next(column.features(spec))
    ids, weights = (
        len(stored_records.values(features.get(name))) for name in (source, column.weighted_by)
    )
    if ids != weights:
        return (
            f"feature {column.weighted_by!r} has {weights} weights, but feature {source!r} has "
            f"{counted(ids, 'value')}; expected one weight for each value"
        )
    return None


def _steps_reason(spec: FeatureSpec, features: Any) -> Optional[str]:
    for names in spec.groups.values():
        lengths = {
            feature: len(stored_records.values(features.get(feature)))
            for name in names
            if spec.is_sequence(name)
            for feature in spec.features_of(name)
        }
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name!r} has {count}" for name, count in lengths.items())
            return f"its lists of steps differ in length: {counts}; in a group they must be equal"
    return None


def _label_reason(
    spec: FeatureSpec, name: str, label: Label, features: Any, remedy: Optional[str]
) -> Optional[str]:
    what = f"label {name!r}"
    stored = features.get(name)
    values = stored_records.values(stored)
    if values or label.missing is None:
        classes = spec.objectives[spec.objective_of(name)].lists_classes
        reason = _stored_label_reason(what, label, stored, remedy, classes=classes)
        if reason:
            return reason
        accepted = accepted_values.of_head(spec, name)
        for value in values:
            if value not in accepted:
                end = f"; {accepted.remedy}" if accepted.remedy else ""
                return f"{what} is {value}, expected {accepted.expected}{end}"
    for other in accepted_values.equal_lengths(spec, name):
        steps = len(stored_records.values(features.get(other)))
        if len(values) != steps:
            return (
                f"{what} has {counted(len(values), 'value')}, but feature {other!r} has {steps}; "
                "expected one item for each step"
            )
    if label.weight is not None and label.weight in spec.features:
        weight = spec.features[label.weight]
        reason = _feature_reason(
            f"weight {label.weight!r} of {what}", weight, features.get(label.weight), remedy
        )
        if reason:
            return reason
        for value in stored_records.values(features.get(label.weight)):
            if value < 0:
                return f"weight {label.weight!r} of {what} is {value}, expected 0 or more"
    for part in spec.objectives[spec.objective_of(name)].label_parts:
        reason = _part_reason(spec, what, part, features, remedy)
        if reason:
            return reason
    weight_label = spec.labels.get(label.weight or "")
    if weight_label is not None and weight_label.dtype != "string":
        for value in stored_records.values(features.get(label.weight)):
            if value < 0:
                return f"weight {label.weight!r} of {what} is {value}, expected 0 or more"
    return None


def _part_reason(
    spec: FeatureSpec, of_label: str, part: LabelPart, features: Any, remedy: Optional[str]
) -> Optional[str]:
    """Why a part of a label cannot be used."""
    what = f"{part.field} {part.name!r} of {of_label}"
    if part.name in spec.features:
        feature = spec.features[part.name]
        reason = _feature_reason(what, feature, features.get(part.name), remedy)
        if reason:
            return reason
    for accepted in accepted_values.of_parts(spec, part.name):
        for value in stored_records.values(features.get(part.name)):
            if value not in accepted:
                return f"{what} is {value}, expected {accepted.expected}"
    return None


def _stored_label_reason(
    what: str, label: Label, stored: Any, remedy: Optional[str], *, classes: bool
) -> Optional[str]:
    """`classes`: whether the label is a list of classes, which can mean no class."""
    if label.variable and not stored_records.values(stored):
        if remedy is not None:
            return f"{what} is missing or an empty list. {remedy}"
        hint = "missing: mask in the spec"
        if classes:
            hint = "missing: no_class in the spec if that means no class, or missing: mask"
        return f"{what} is missing or an empty list; say {hint} to give such rows no weight"
    feature = Feature(dtype=label.dtype, shape=label.shape)
    reason = _feature_reason(what, feature, stored, remedy)
    if reason is None:
        return None
    reason, may_lack_it, _ = reason.partition(", and it has no default")
    if may_lack_it:
        reason += "; if records may lack it, say missing: mask in the spec, to give them no weight"
    return reason
