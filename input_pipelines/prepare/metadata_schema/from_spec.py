"""Converts a spec to a Schema of its records, for TensorFlow Data Validation and similar tools.

    text = from_spec.text(feature_specs.load("spec.yaml"))

A Schema describes stored features, not a model. So it has no columns, groups or objectives. A
column only gives its feature a domain (the words of a vocabulary, the size of an identity). A
weighted column becomes a weighted feature. Everything that is left out is listed in comments at the
top, and by `schema_of`.

    required               presence { min_fraction: 1 min_count: 1 }
    default                default_value of a dense TensorRepresentation
    ignored                lifecycle_stage: DISABLED
    labels, their weights  not_in_environment: "SERVING"; labels are tagged `label`
    drift, stop            drift_comparator
"""

from __future__ import annotations

import json
from typing import Any, Optional, Union

from feature_specs.feature import Feature, Image
from feature_specs.kinds import HashBucket, Identity, Vocabulary
from feature_specs.label import Label
from feature_specs.sections.records import Thresholds
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.analyze import drift
from input_pipelines.prepare.metadata_schema import feature_choices, feature_reading
from input_pipelines.prepare.metadata_schema.to_spec import LABEL_TAG

_TRAINING, _SERVING = "TRAINING", "SERVING"
_TYPES = {"string": "BYTES", "int64": "INT", "float32": "FLOAT"}
_COMPARATORS = {"l_infinity": "infinity_norm", "jensen_shannon": "jensen_shannon_divergence"}


def text(spec: FeatureSpec) -> tuple[str, tuple[str, ...]]:
    """The Schema of a spec in text format, and what it does not contain."""
    schema, lost = schema_of(spec)
    head = ["# By run.py --mode=schema. Not in the Schema, which only describes records:"]
    head += [f"#   {line}" for line in lost] or ["#   nothing"]
    return "\n".join([*head, "", feature_reading.text(schema)]), lost


def schema_of(spec: FeatureSpec) -> tuple[Any, tuple[str, ...]]:
    """The Schema message of a spec, and the parts of the spec that it does not contain.

    Raises:
      MissingPackageError: tensorflow-metadata is not installed, or has an unsuitable version.
    """
    schema = feature_reading.library().Schema()
    schema.default_environment.extend([_TRAINING, _SERVING])
    lost: list[str] = []
    served = spec.used_features()
    for name, feature in spec.features.items():
        message = _add(schema, name, feature)
        _add_shape(schema, message, feature)
        if feature.feature_list:
            lost.append(f"features.{name}.feature_list: true; a list in the Schema")
        if feature.row_lengths is not None:
            lost.append(f"features.{name}.row_lengths: {feature.row_lengths}")
        if feature.decode is not None:
            if isinstance(feature.decode, Image):
                message.image_domain.SetInParent()
            decode = feature.decode.model_dump(mode="json", exclude_defaults=True)
            lost.append(f"features.{name}.decode: {json.dumps(decode)}")
        if name in spec.ignored:
            message.lifecycle_stage = feature_reading.library().DISABLED
        elif name not in served:  # The weight of a label, or a true probability.
            message.not_in_environment.append(_SERVING)
        _add_drift(spec, "feature", name, message, lost)
    domains = {_add_domain(spec, name, schema, lost) for name in spec.features}
    domains.update(feature_choices.add_messages(schema, spec))
    for name, label in spec.labels.items():
        _add_label(spec, name, label, schema, lost)
    lost += _columns_lost(spec, domains)
    return schema, tuple(lost)


def _add(schema: Any, name: str, entry: Union[Feature, Label]) -> Any:
    kind = getattr(feature_reading.library(), _TYPES[entry.dtype])
    return schema.feature.add(name=name, type=kind)


def _add_shape(schema: Any, message: Any, feature: Feature) -> None:
    if feature.variable:
        message.value_count.min = 0
        return
    message.shape.SetInParent()  # No dimension: one value.
    for size in feature.shape:
        message.shape.dim.add(size=int(size))
    if feature.is_required:
        message.presence.min_fraction = 1.0
        message.presence.min_count = 1
        return
    group = schema.tensor_representation_group[""]
    tensor = group.tensor_representation[message.name].dense_tensor
    tensor.column_name = message.name
    tensor.shape.CopyFrom(message.shape)
    if feature.dtype == "string":
        absent = "" if feature.decode is not None else str(feature.default)
        tensor.default_value.bytes_value = absent.encode()
    elif feature.dtype == "int64":
        tensor.default_value.int_value = int(feature.default or 0)
    else:
        tensor.default_value.float_value = float(feature.default or 0)


def _add_label(spec: FeatureSpec, name: str, label: Label, schema: Any, lost: list[str]) -> None:
    message = _add(schema, name, label)
    if label.variable:
        message.value_count.min = 0 if label.missing else 1
    else:
        message.shape.SetInParent()
        for size in label.shape:
            message.shape.dim.add(size=int(size))
    if label.missing is None:
        message.presence.min_fraction = 1.0
        message.presence.min_count = 1
    message.not_in_environment.append(_SERVING)
    message.annotation.tag.append(LABEL_TAG)
    entry = spec.objectives[spec.objective_of(name)]
    low, high = entry.label_bounds
    if label.variable and entry.classes is not None:
        low, high = 0, entry.classes - 1
    if label.vocabulary is not None:
        message.string_domain.name = name
        message.string_domain.value.extend(label.vocabulary)
    elif label.dtype == "int64" and low is not None:
        message.int_domain.name = name
        message.int_domain.min = int(low)
        if high is not None:
            message.int_domain.max = int(high)
        message.int_domain.is_categorical = entry.classes is not None
    elif low is not None:
        message.float_domain.name = name
        message.float_domain.min = float(low)
        if high is not None:
            message.float_domain.max = float(high)
    for field in ("weight", "true_probability", "missing"):
        if getattr(label, field) is not None:
            lost.append(f"labels.{name}.{field}: {getattr(label, field)}")
    _add_drift(spec, "label", name, message, lost)


def _add_domain(spec: FeatureSpec, name: str, schema: Any, lost: list[str]) -> Optional[str]:
    """Gives a feature the domain of a column over it, and returns the column's name."""
    message = next(m for m in schema.feature if m.name == name)
    readers = {n: c for n, c in spec.columns.items() if c.looks_up and name in c.features(spec)}
    string = spec.features[name].dtype == "string"
    for column_name, column in readers.items():
        path = f"columns.{column_name}"
        if isinstance(column, Vocabulary) and string:
            message.string_domain.name = name
            message.string_domain.value.extend(column.row_names(spec))
            # Other words are not an error, but by default a domain allows no other words.
            message.distribution_constraints.min_domain_mass = 0.0
            if column.oov_buckets > 1:
                lost.append(f"{path}.oov_buckets: {column.oov_buckets}; words outside are allowed")
            elif column.default_id >= 0:
                lost.append(f"{path}.default_id: {column.default_id}; words outside are allowed")
            elif not column.oov_buckets:
                lost.append(f"{path}: words outside have no id; they are allowed")
            return column_name
        if isinstance(column, Identity):
            message.int_domain.name = name
            message.int_domain.is_categorical = True
            if column.default_id is None:
                message.int_domain.min, message.int_domain.max = 0, column.size - 1
            else:
                lost.append(f"{path}.size: {column.size}; default_id allows other values")
            return column_name
    for column_name, column in readers.items():
        if not string:
            message.int_domain.name = name
            message.int_domain.is_categorical = True
            if isinstance(column, Vocabulary):
                lost.append(f"columns.{column_name}: the list of its integers")
            elif isinstance(column, HashBucket):
                lost.append(f"columns.{column_name}.size: {column.size}")
            return column_name
    return None


def _add_drift(spec: FeatureSpec, kind: str, name: str, message: Any, lost: list[str]) -> None:
    """Adds the thresholds of a measured feature or label, also if they come from the default."""
    if kind == "feature" and name in spec.ignored and name not in spec.drift.features:
        return
    for measure in ("l_infinity", "jensen_shannon", "missing"):
        limits: Thresholds = drift.thresholds(spec, kind, name, measure)
        path = f"drift of {kind} {name}: {measure}"
        fits = measure in _COMPARATORS
        if measure == "l_infinity" and message.type == feature_reading.library().FLOAT:
            fits = False
        if limits.stop is not None and fits:
            comparator = getattr(message.drift_comparator, _COMPARATORS[measure])
            comparator.threshold = limits.stop
        elif limits.stop is not None:
            lost.append(f"{path}: stop {limits.stop:g}")
        if limits.warn is not None:
            lost.append(f"{path}: warn {limits.warn:g}")


def _columns_lost(spec: FeatureSpec, domains: set[Optional[str]]) -> list[str]:
    """The columns that became neither domains nor weighted features; groups, objectives, filter."""
    document = spec.to_dict()
    lost = [
        f"columns.{name}: {json.dumps(entry)}"
        for name, entry in document["columns"].items()
        if name not in domains
    ]
    lost += [
        f"embedding_tables.{name}: {json.dumps(entry)}"
        for name, entry in document.get("embedding_tables", {}).items()
    ]
    lost += [f"groups.{name}: {', '.join(group)}" for name, group in spec.groups.items()]
    lost += [
        f"objectives.{name}: {json.dumps(entry)}" for name, entry in document["objectives"].items()
    ]
    lost += [f"filter[{i}]: {json.dumps(e)}" for i, e in enumerate(document.get("filter", []))]
    return lost
