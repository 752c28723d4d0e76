"""The rows that describe items: records of TFRecord files, or rows of tables, and their names.

    with bad_rows_named(spec, paths, needed):
        for names, records in batches(spec, paths, "item_id", needed, size): ...

A row needs the features that the vector of an item depends on, and the feature with its name. It
may lack other features, such as the features of users, which get an arbitrary value. Tables are
read as for a prediction (`rows`); the section `tables` of the spec says how CSV files are written.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.session_errors import explained
from estimator_kit.scoring import rows
from estimator_kit.scoring.export import RECORD_REMEDY
from estimator_kit.scoring.rows import Batch
from feature_specs.errors import did_you_mean
from feature_specs.reference import columns
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import fields as field_rules
from input_pipelines.prepare.tables import formats, reader
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files import kinds

_REMEDY = "correct the table"


def check_name(spec: FeatureSpec, names: Sequence[str]) -> str:
    """The one feature of `--keep_columns`, which names an item."""
    if len(names) != 1:
        raise ConfigError(
            f"--keep_columns: expected the feature that names an item, such as item_id, got "
            f"{', '.join(names) or 'nothing'}. The export describes items by their features, so it "
            "does not know their names."
        )
    if names[0] not in spec.features:
        raise ConfigError(
            f"--keep_columns: the spec of the export has no feature {names[0]!r}"
            f"{did_you_mean(names[0], list(spec.features))}"
        )
    return names[0]


def batches(
    spec: FeatureSpec, paths: Sequence[str], name: str, needed: Collection[str], size: int
) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """The names of items, and records that the model can read, as an object array.

    Args:
      spec: the feature spec of the export.
      paths: files of one kind.
      name: the feature that names an item.
      needed: the features that the vector of an item depends on.
      size: the largest number of rows in a batch.

    Raises:
      DataError: a row has no name of its item, or lacks a feature that is needed.
    """
    part = _of_items(spec, needed)
    others = _fillers(spec, needed)
    is_table = kinds.kind_of_all(paths) != kinds.TFRECORD
    item_batches = _of_tables(part, paths, name, size) if is_table else _of_records(paths, size)
    for batch in item_batches:
        examples = [tf.train.Example.FromString(record) for record in batch.records]
        names = _names(batch, examples, name)
        for example in examples:
            for other, value in others.items():
                if other not in example.features.feature:
                    example.features.feature[other].CopyFrom(value)
        yield names, np.array([example.SerializeToString() for example in examples], object)


def bad_rows_named(spec: FeatureSpec, paths: Sequence[str], needed: Collection[str]) -> Any:
    """A context whose errors of TensorFlow name the bad record.

    A table needs none: its rows are checked before they become records.
    """
    if kinds.kind_of_all(paths) != kinds.TFRECORD:
        return contextlib.nullcontext()
    part = _of_items(spec, needed)
    return explained(part, list(paths), with_labels=False, remedy=RECORD_REMEDY)


def _of_items(spec: FeatureSpec, needed: Collection[str]) -> FeatureSpec:
    """The part of the spec that a row of an item must fit."""
    columns = {n: c for n, c in spec.columns.items() if set(spec.features_of(n)) <= set(needed)}
    groups = {"items": tuple(name for name in spec.used_columns() if name in columns)}
    raw = tuple(name for name in spec.raw if name in needed)
    return dataclasses.replace(spec, columns=columns, groups=groups, raw=raw)


def _of_records(paths: Sequence[str], size: int) -> Iterator[Batch]:
    for path in paths:
        yield from rows.of_tfrecords(path, size)


def _of_tables(spec: FeatureSpec, paths: Sequence[str], name: str, size: int) -> Iterator[Batch]:
    used, csv = {*spec.used_features(), name}, CsvOptions()
    if kinds.kind_of_all(paths) == kinds.CSV:
        csv_settings = spec.tables.given.items()
        csv = dataclasses.replace(csv, **{key.removeprefix("csv_"): v for key, v in csv_settings})
    dtype_of = field_rules.dtypes_of(spec)
    dtypes = {feature: dtype_of[feature] for feature in used}
    lists = field_rules.names_of_lists(spec)
    table = reader.open_table(
        paths, csv=csv, dtypes=dtypes, lists=lists, only=used, correct=_REMEDY
    )
    column_names = [column.name for column in table.columns]
    if name not in column_names:
        raise ConfigError(
            f"--keep_columns: {paths[0]} has no column {name!r}{did_you_mean(name, column_names)}"
        )
    fields, _ = field_rules.of_spec(
        table, spec, only=spec.used_features(), learning=False, remedy=_REMEDY
    )
    for path in paths:
        groups = table.row_groups(path)
        all_rows = table.rows_of(path, 0, sum(groups), groups)
        yield from rows.of_table(all_rows, fields, [name], spec.source, size)


def _names(batch: Batch, examples: Sequence[Any], name: str) -> list[bytes]:
    """The names of the items of a batch, as bytes."""
    if batch.part is not None:
        kept = batch.kept[0].to_pylist()
        kept = [formats.of(batch.part.kind).kept_value(value) for value in kept]
        stored = [[value] if value is not None else [] for value in kept]
    else:
        stored = [_values(example.features.feature.get(name)) for example in examples]
    names = []
    for i, values in enumerate(stored):
        if len(values) != 1 or not isinstance(values[0], (str, bytes, int)):
            raise DataError(
                f"{batch.where(i)}: expected one string or int64 in {name!r} of --keep_columns, "
                f"which names the item, got {values or 'none'}. Correct the row."
            )
        value = values[0]
        names.append(value if isinstance(value, bytes) else str(value).encode())
    return names


def _values(feature: Any) -> list[Any]:
    kind = feature.WhichOneof("kind") if feature is not None else None
    return list(getattr(feature, kind).value) if kind is not None else []


def _fillers(spec: FeatureSpec, needed: Collection[str]) -> dict[str, Any]:
    """A value for each required feature that is not needed, so that records can be parsed."""
    fillers = {}
    for name, entry in columns.feature_parse_dict(spec).items():
        required = isinstance(entry, tf.io.FixedLenFeature) and entry.default_value is None
        if name in needed or not required:
            continue
        count = int(np.prod(entry.shape))
        value = fillers[name] = tf.train.Feature()
        dtype = tf.as_dtype(entry.dtype)
        if dtype == tf.string:
            value.bytes_list.value.extend([b""] * count)
        elif dtype == tf.int64:
            value.int64_list.value.extend([0] * count)
        else:
            value.float_list.value.extend([0.0] * count)
    return fillers
