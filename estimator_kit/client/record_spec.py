"""The part of an export's spec that a client needs: the features of a record and their forms.

    spec = record_spec.load("runs/ads/export/best/1700000000/assets.extra/feature_spec/spec.json")

`feature_specs` reads complete specs, and needs pydantic and PyYAML. This module needs only Python.
It reads the JSON that the kit writes into an export, checks what it uses, and refuses what it does
not know, because that comes from a newer kit. A test compares both.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, Union

VERSION = 1  # Of the document, as in `feature_specs.parser.parser`.

_FEATURE_KEYS = (
    "dtype",
    "shape",
    "default",
    "required",
    "feature_list",
    "row_lengths",
    "decode",
    "private",
)
_DTYPES = ("float32", "int64", "string")

# The key in a column's entry that gives its kind. Its value is the source of the column.
_CATEGORICAL = (
    "bucketized",
    "is_missing",
    "identity",
    "time",
    "vocabulary",
    "hash_bucket",
    "growing",
    "crossed",
    "weighted",
)
KINDS = (
    "numeric",
    "sequence_numeric",
    "ragged",
    *_CATEGORICAL,
    "indicator",
    "embedding",
)
_REMEDY = (
    "Expected the spec.json that estimator-kit writes into an export. If the export is newer than "
    "this client, upgrade the client."
)


@dataclasses.dataclass(frozen=True)
class FeatureForm:
    """How a record stores one feature. The fields have the same meaning as in `feature_specs.spec`.

    Attributes:
      dtype: `float32`, `int64` or `string`.
      shape: `()` for one value, sizes for a fixed number, `variable` for a list.
      feature_list: whether it is a feature list of a SequenceExample.
      row_lengths: the feature that splits its list into lists, or empty.
      is_required: whether each record must have it.
    """

    dtype: str
    shape: Union[str, tuple[int, ...]]
    feature_list: bool
    row_lengths: str
    is_required: bool

    @property
    def variable(self) -> bool:
        return self.feature_list or self.shape == "variable"

    @property
    def single(self) -> bool:
        return self.shape == () and not self.feature_list

    @property
    def nested(self) -> bool:
        """Whether it is a list of lists."""
        return bool(self.row_lengths) or (self.feature_list and self.shape == "variable")

    @property
    def length(self) -> int:
        """Number of values of a fixed shape."""
        assert not self.variable and not isinstance(self.shape, str), "a list has no length"
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class RecordSpec:
    """The records that an export reads.

    Attributes:
      features: the features by name, in the order of the document.
      labels: the names of the labels.
      columns: the columns as `{name: entry}`, as in the document.
      used: the names of the columns that are in a group.
      raw: the features that the model reads without a column.
    """

    features: Mapping[str, FeatureForm]
    labels: frozenset[str]
    columns: Mapping[str, Mapping[str, Any]]
    used: frozenset[str]
    raw: frozenset[str] = frozenset()

    @property
    def sequence_examples(self) -> bool:
        """Whether records are SequenceExamples."""
        return any(feature.feature_list for feature in self.features.values())

    def used_features(self) -> tuple[str, ...]:
        """The features that the model reads, in the order of the document."""
        used = set(self.raw)
        columns = sorted(self.used)
        for column in columns:  # The loop appends the columns that other columns are made from.
            entry = self.columns[column]
            kind = _kind(entry)
            for source in _sources(kind, entry):
                if not self._is_column(kind, source):
                    used.add(source)
                elif source not in columns:
                    columns.append(source)
            if kind == "weighted":
                used.add(entry["weight"])
        used |= {self.features[name].row_lengths for name in used if name in self.features}
        return tuple(name for name in self.features if name in used)

    def _is_column(self, kind: str, source: str) -> bool:
        """Whether the source of a column is a column. A feature may have the same name."""
        if source not in self.columns:
            return False
        below = _kind(self.columns[source])
        if kind == "bucketized":
            return below == "numeric"
        if kind == "ragged":
            return below in _CATEGORICAL
        return kind in ("crossed", "embedding", "indicator", "weighted")


def load(path: str) -> RecordSpec:
    """Reads the JSON of a spec.

    Raises:
      ValueError: the file cannot be read, or is not the spec of an export.
    """
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read: {error.strerror or error}. Give the folder of an export, or "
            "the spec.json in its assets.extra/feature_spec."
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: is not JSON: {error}. {_REMEDY}") from error
    try:
        return parse(document)
    except ValueError as error:
        raise ValueError(f"{path}: {error}. {_REMEDY}") from error


def load_needs(path: str) -> dict[str, list[str]]:
    """`{signature: features that it reads}` of an export; empty if it has no such file.

    Exports of earlier releases of the kit have none: their signatures need all features.

    Raises:
      ValueError: the file cannot be read, or is not such a document.
    """
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ValueError(f"{path}: is not JSON: {error}. Export the model again.") from error
    lists = document.values() if isinstance(document, dict) else [None]
    for names in lists:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(
                f"{path}: got {names!r}, expected a list of features for each signature. Export "
                "the model again."
            )
    return dict(document)


def parse(document: Any) -> RecordSpec:
    """The spec in the document of a spec.json.

    Raises:
      ValueError: an entry is not as expected; the message names it.
    """
    sections = ("features", "columns", "groups", "labels")
    if not isinstance(document, dict):
        raise ValueError(f"got {type(document).__name__}, expected an object")
    if document.get("version", VERSION) != VERSION:
        raise ValueError(f"version: got {document['version']!r}, expected {VERSION}")
    for section in sections:
        if not isinstance(document.get(section), dict):
            raise ValueError(f"{section}: got {document.get(section)!r}, expected an object")
    features, columns, groups, labels = (document[section] for section in sections)
    raw = document.get("raw", [])
    if not isinstance(raw, list):
        raise ValueError(f"raw: got {raw!r}, expected a list")
    for name in raw:
        if not isinstance(name, str) or name not in features:
            raise ValueError(f"raw: got {name!r}, expected a feature")
    spec = RecordSpec(
        features={name: _feature(name, entry) for name, entry in features.items()},
        labels=frozenset(labels),
        columns=columns,
        used=frozenset(column for names in groups.values() for column in names),
        raw=frozenset(raw),
    )
    for name, entry in columns.items():
        _check_column(name, entry, columns, features)
    for column in sorted(spec.used):
        if column not in columns:
            raise ValueError(f"groups: got {column!r}, expected a column")
    return spec


def _feature(name: str, entry: Any) -> FeatureForm:
    place = f"features.{name}"
    if not isinstance(entry, dict):
        raise ValueError(f"{place}: got {entry!r}, expected an object")
    unknown = sorted(set(entry) - set(_FEATURE_KEYS))
    if unknown:
        raise ValueError(f"{place}: unknown key {unknown[0]!r}")
    if entry.get("dtype") not in _DTYPES:
        expected = ", ".join(_DTYPES)
        raise ValueError(f"{place}.dtype: got {entry.get('dtype')!r}, expected one of {expected}")
    shape = entry.get("shape", [])
    is_shape = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
    if shape != "variable" and not is_shape:
        raise ValueError(f"{place}.shape: got {shape!r}, expected variable or a list of sizes")
    variable, is_steps = shape == "variable", entry.get("feature_list") is True
    if is_steps:
        is_required = entry.get("required") is True
    else:
        is_required = entry.get("default") is None and not variable
    return FeatureForm(
        dtype=entry["dtype"],
        shape="variable" if variable else tuple(shape),
        feature_list=is_steps,
        row_lengths=entry.get("row_lengths") or "",
        is_required=is_required,
    )


def _kind(entry: Mapping[str, Any]) -> str:
    return next(kind for kind in KINDS if kind in entry)


def _sources(kind: str, entry: Mapping[str, Any]) -> list[Any]:
    source = entry[kind]
    return list(source) if kind == "crossed" and isinstance(source, list) else [source]


def _check_column(
    name: str, entry: Any, columns: Mapping[str, Any], features: Mapping[str, Any]
) -> None:
    place = f"columns.{name}"
    kinds = [kind for kind in KINDS if isinstance(entry, dict) and kind in entry]
    if len(kinds) != 1:
        raise ValueError(f"{place}: got {entry!r}, expected one of the kinds {', '.join(KINDS)}")
    sources = _sources(kinds[0], entry)
    sources += [entry.get("weight")] if kinds[0] == "weighted" else []
    for source in sources:
        if not isinstance(source, str) or (source not in columns and source not in features):
            raise ValueError(f"{place}: got {source!r}, expected a feature or a column")
