"""Makes a first spec from a Schema: `spec.yaml` with comments on every choice, and vocabularies.

    report = to_spec.write("schema.pbtxt", labels=["click"], directory="first")

You can name the labels. By default, they are the features that the Schema tags `label`, or else the
features that one of its default environments lacks, such as SERVING. The comments and the report
list what a spec cannot express. The folder works like an analysis folder: files that the kit did
not write are never overwritten.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from feature_specs.errors import did_you_mean
from input_pipelines.prepare.analyze import folder, spec_text
from input_pipelines.prepare.analyze.columns import Choice, Entry
from input_pipelines.prepare.analyze.first_spec import SPEC_FILE, check_loads
from input_pipelines.prepare.metadata_schema import feature_choices, feature_reading
from input_pipelines.prepare.metadata_schema.feature_reading import (
    DTYPES,
    Reading,
    SchemaError,
    one_line,
)

LABEL_TAG = "label"
_MOST_CLASSES = 1000
_DOMAINS = ("string_domain", "float_domain", "int_domain")


def write(path: str, *, labels: Sequence[str], directory: str) -> str:
    """Writes the first spec of a Schema into a folder, and returns a report.

    Args:
      path: the Schema, in text format.
      labels: the features to learn; empty for the labels that the Schema marks.
      directory: the folder. It must be new, empty, or unchanged since an import or analysis.

    Raises:
      SchemaError: the Schema cannot be used. Nothing was written.
      FolderError: the folder has other files. Nothing was written.
      MissingPackageError: tensorflow-metadata is not installed, or has an unsuitable version.
    """
    target = pathlib.Path(directory)
    folder.check(target)
    schema = feature_reading.read_schema(path)
    texts, report = spec_files(schema, labels=labels, source=path)
    check_loads(texts)
    folder.publish(target, texts)
    return "\n".join(
        [f"{target / SPEC_FILE}: a first spec of {path}", *(f"  {line}" for line in report)]
    )


def spec_files(
    schema: Any, *, labels: Sequence[str], source: str
) -> tuple[dict[str, str], list[str]]:
    """The files of a first spec, by path, and the report's lines. Raises SchemaError."""
    _check_names(schema, source)
    readings = _readings(schema)
    if not readings:
        raise SchemaError(f"{source!r} has no feature")
    chosen = labels or _labels_of(schema, source)
    for label in chosen:
        _check_label(label, readings, source, flag=bool(labels))
    drift = _drift(readings, chosen)  # This comes first, because it adds to `lost`.
    taken = frozenset(readings)
    choices: dict[str, Choice] = {}
    for name, reading in readings.items():
        if name in chosen:
            continue
        why = feature_choices.unusable(reading)
        if why:
            choices[name] = Choice(why=why)
        else:
            absent = _absent(schema, reading.message)
            choices[name] = feature_choices.choose(reading, taken, absent=absent)
    if not any(choice.columns for choice in choices.values()):
        raise SchemaError(f"apart from the labels, {source!r} has no feature for a column")
    not_in_spec = [
        *feature_choices.add_columns(schema, readings, choices),
        *_lost_of_schema(schema),
    ]
    entries = [_label_entries(readings[label]) for label in chosen]
    report = [
        f"{'left out' if choice.feature is None else 'ignored'}: {name}: {choice.why}"
        for name, choice in choices.items()
        if choice.feature is None or choice.ignored
    ]
    report += [f"not in the spec: {lost}" for lost in not_in_spec]
    for name, reading in readings.items():
        report += [f"not in the spec: {name}: {lost}" for lost in reading.lost]
    heading = "\n".join(
        [
            f"A first spec, by run.py --mode=schema of {pathlib.Path(source).name}. Every "
            "choice is a rule of thumb, and the comment gives its reason: read it, change what you "
            "know better, then train.",
            *(f"Not in the spec: {lost}" for lost in not_in_spec),
        ]
    )
    texts = {SPEC_FILE: spec_text.spec_text(choices, entries, heading=heading, drift=drift)}
    for name, reading in readings.items():
        used = name in choices and any("file" in c.value for c in choices[name].columns)
        if used:
            texts[feature_choices.vocabulary_file(name)] = "".join(f"{w}\n" for w in reading.words)
    return texts, report


def _check_names(schema: Any, source: str) -> None:
    seen: set[str] = set()
    for i, message in enumerate(schema.feature):
        if not message.name:
            raise SchemaError(f"{source!r}: feature {i} has no name")
        if message.name in seen:
            raise SchemaError(f"{source!r}: feature {message.name!r} is listed twice")
        seen.add(message.name)


def _readings(schema: Any) -> dict[str, Reading]:
    domains = {d.name: (kind, d) for kind in _DOMAINS for d in getattr(schema, kind)}
    group = schema.tensor_representation_group
    dense = {}
    if "" in group:  # Reading a missing key would add it to the map.
        for representation in group[""].tensor_representation.values():
            tensor = representation.dense_tensor
            if representation.WhichOneof("kind") == "dense_tensor":
                dense[tensor.column_name] = tensor
    readings = {}
    for message in schema.feature:
        dtype = DTYPES.get(message.type)
        tensor = dense.get(message.name)
        default, lost = _default(tensor, dtype)
        readings[message.name] = feature_reading.read(message, domains, default)
        if lost:
            readings[message.name].lost.append(lost)
    return readings


def _default(tensor: Any, dtype: Optional[str]) -> tuple[Any, str]:
    """The default value of a dense tensor, and why it cannot be used, if so."""
    kind = tensor.default_value.WhichOneof("kind") if tensor is not None else None
    if kind is None:
        return None, ""
    value = getattr(tensor.default_value, kind)
    if kind == "bytes_value" and dtype == "string":
        try:
            return value.decode(), ""
        except UnicodeDecodeError:
            return None, f"default_value {value!r}: it is not text"
    if kind == "int_value" and dtype == "int64":
        return int(value), ""
    if kind in ("int_value", "float_value") and dtype == "float32":
        if not math.isfinite(value):
            return None, f"default_value {one_line(tensor.default_value)}: it is not finite"
        return float(value), ""
    return None, f"default_value {one_line(tensor.default_value)}: it is not a {dtype}"


# --- Labels --------------------------------------------------------------------------------------


def _absent(schema: Any, message: Any) -> str:
    """The first default environment that lacks a feature, or an empty string."""
    for environment in schema.default_environment:
        if environment in message.not_in_environment:
            return str(environment)
    return ""


def _labels_of(schema: Any, source: str) -> list[str]:
    tagged = [m.name for m in schema.feature if LABEL_TAG in m.annotation.tag]
    names = tagged or [m.name for m in schema.feature if _absent(schema, m)]
    if not names:
        raise SchemaError(
            f"{source!r} does not say which features are labels: no feature has the tag "
            f"{LABEL_TAG!r}, and its default environments have all features. Name the labels, for "
            "example --labels=click"
        )
    return names


def _check_label(label: str, readings: dict[str, Reading], source: str, *, flag: bool) -> None:
    place = "--labels: " if flag else ""
    reading = readings.get(label)
    if reading is None:
        hint = did_you_mean(label, readings)
        raise SchemaError(f"{place}{source!r} has no feature {label!r}{hint}")
    why = feature_choices.unusable(reading)
    if why:
        raise SchemaError(f"{place}feature {label!r} of {source!r} cannot be a label: {why}")
    has_shape = reading.message.WhichOneof("shape_type") is not None
    if has_shape and reading.shape != ():
        raise SchemaError(
            f"{place}feature {label!r} of {source!r} cannot be a label: a label must have one "
            "value. Name the features to learn with --labels"
        )
    if reading.dtype == "string" and not 2 <= len(reading.words) <= _MOST_CLASSES:
        raise SchemaError(
            f"{place}feature {label!r} of {source!r} is text with {len(reading.words):,} words in "
            f"its domain; a label must have 2 to {_MOST_CLASSES:,} classes, or be a number"
        )


def _label_entries(reading: Reading) -> tuple[Entry, Entry]:
    """Entries under `labels` and `objectives`."""
    value: dict[str, Any] = {"dtype": reading.dtype}
    classes = 0
    if reading.dtype == "string":
        value["vocabulary"] = reading.words
        classes = len(reading.words)
    elif reading.integers is not None and reading.integers[0] == 0:
        classes = reading.integers[1] + 1
    elif reading.domain_kind == "float_domain":
        classes = 2 if (reading.domain.min, reading.domain.max) == (0.0, 1.0) else 0
    if classes == 2:
        head, why = {"head": "binary"}, "its domain has two values"
        if reading.dtype == "float32":
            why = "its domain is 0 to 1; choose logistic_regression if values between 0 and 1 occur"
    elif 3 <= classes <= _MOST_CLASSES:
        head = {"head": "multi_class", "num_classes": classes}  # type: ignore[dict-item]
        why = f"its domain has {classes:,} values"
    else:
        head, why = {"head": "regression"}, "the Schema has no classes for it; it may be binary"
        feature_choices.list_range(reading)
    lost = (f"not in the spec: {text}" for text in reading.lost)
    comment = "; ".join([*reading.message.annotation.comment, *lost])
    return Entry(reading.name, value, comment), Entry(reading.name, head, f"a guess: {why}")


# --- The rest of the Schema ----------------------------------------------------------------------


def _drift(readings: dict[str, Reading], labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The thresholds of drift comparators, as `stop`."""
    features: dict[str, dict[str, Any]] = {}
    for name, reading in readings.items():
        comparator = reading.message.drift_comparator
        section = "labels" if name in labels else "features"
        if feature_choices.unusable(reading):
            continue  # The spec does not have this feature.
        for field, measure, dtypes in (
            ("infinity_norm", "l_infinity", ("string", "int64")),
            ("jensen_shannon_divergence", "jensen_shannon", ("float32", "int64")),
        ):
            if not comparator.HasField(field):
                continue
            threshold = getattr(comparator, field).threshold
            text = f"drift_comparator.{field} {threshold:g}"
            if reading.dtype not in dtypes:
                reading.lost.append(f"{text}: {measure} is not for {reading.dtype} features")
            elif not 0 <= threshold <= 1:
                reading.lost.append(f"{text}: it is not from 0 to 1")
            else:
                entry = features.setdefault(section, {}).setdefault(name, {})
                entry[measure] = {"stop": threshold}
        if comparator.HasField("normalized_abs_difference"):
            reading.lost.append(f"drift_comparator {one_line(comparator)}: unknown measure")
    return features


def _lost_of_schema(schema: Any) -> Iterator[str]:
    """Fields at the top of a Schema that a spec cannot store."""
    for field, value in schema.ListFields():
        if field.name in ("feature", "weighted_feature", *_DOMAINS):
            continue
        if field.name == "sparse_feature":
            for message in value:
                yield f"{field.name} {one_line(message)}"
        elif field.name == "default_environment":
            yield (
                f"default_environment {', '.join(value)}: a spec only distinguishes training and "
                "serving without labels"
            )
        elif field.name == "tensor_representation_group":
            yield from _lost_representations(value)
        else:
            yield f"{field.name} {one_line(value)}"


def _lost_representations(groups: Any) -> Iterator[str]:
    for group in sorted(groups):
        for name, representation in sorted(groups[group].tensor_representation.items()):
            kind = representation.WhichOneof("kind")
            if group or kind not in ("dense_tensor", "varlen_sparse_tensor"):
                place = f"tensor_representation_group {group!r}: {name}"
                yield f"{place}: {one_line(representation)}"
