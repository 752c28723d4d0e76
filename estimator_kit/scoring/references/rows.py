"""The rows of a reference model: what the records hold, before the transform of the model.

    sample = rows.sampled(spec, files, most=200_000)
    table = rows.read(spec, sample.records)
    table.features["city"]       # Values: int64 keys, and where a value is missing

The features are those that the columns of the groups read. A feature that a record lacks is
missing, whatever default the spec has for it, and so are the values that mean "missing" to the
columns. Words become 62-bit hashes, which are as good as words to tell them apart.

If there are more rows than `most`, a random sample is read, the same each time. It keeps all rows
of a group or none, if an objective has groups. All records are read once, and only the rows of the
sample are parsed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from estimator_kit.model.heads import judged_labels
from feature_specs.files import file_systems
from feature_specs.kinds import Time
from feature_specs.spec import FeatureSpec
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.transform import times
from input_pipelines.transform.labels import LabelReader, group_hash
from input_pipelines.transform.record_parsing import RecordParser

_BATCH = 8192
_HASHES = 2**62

# Values of a feature in some rows, and how many each row has.
_Parts = tuple[NDArray[Any], NDArray[np.int64]]


class Sample(NamedTuple):
    """Some records of files.

    Attributes:
      records: serialized, in the order of the files.
      of: how many rows the files have, of those that the filter keeps.
    """

    records: list[bytes]
    of: int


@dataclasses.dataclass(frozen=True)
class Values:
    """The values of a feature in some rows.

    Attributes:
      flat: the values of all rows: float64, or int64 for integers and for hashes of words.
      lengths: int64 [rows], how many values a row has; 0 where a feature of one value is missing.
      single: whether a row has one value at most.
      words: whether the values are hashes of words.
      names: whether they are words, or integers that a column reads as names, such as ids.
    """

    flat: NDArray[Any]
    lengths: NDArray[np.int64]
    single: bool
    words: bool
    names: bool

    def only(self, rows: NDArray[np.bool_]) -> Values:
        """The values of some rows."""
        if rows.all():
            return self
        kept = np.repeat(rows, self.lengths)
        return dataclasses.replace(self, flat=self.flat[kept], lengths=self.lengths[rows])


@dataclasses.dataclass(frozen=True)
class Target:
    """What an objective learns from some rows.

    Attributes:
      labels: as `row_metric` takes them, float64 [rows].
      weights: float64 [rows]. A row with weight 0 has no label.
      groups: int64 [rows], a hash for each value of `group_by`, -1 for none. None without groups.
    """

    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    groups: Optional[NDArray[np.int64]]


class Table(NamedTuple):
    """Features and targets of the same rows, by the names of features and objectives."""

    features: Mapping[str, Values]
    targets: Mapping[str, Target]


def names_of(spec: FeatureSpec) -> list[str]:
    """The features of a reference model: those that groups read, without images and raw bytes.

    A feature of which groups only read the hour or another part is not among them; see `times_of`.
    """
    of_times = spec.of_kind(Time)
    used = {
        name
        for column in spec.used_columns()
        if spec.category_of(column)[0] not in of_times
        for name in spec.features_of(column)
    }
    return [name for name, entry in spec.features.items() if name in used and not entry.decode]


def times_of(spec: FeatureSpec) -> list[str]:
    """The columns with a part of a time that groups read. A reference model gets their values."""
    used = {spec.category_of(name)[0] for name in spec.used_columns()}
    return [name for name in spec.of_kind(Time) if name in used]


def sampled(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    most: int,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    group: Optional[str] = None,
    first: Optional[int] = None,
    seed: int = 1,
) -> Sample:
    """The rows of some files, or a random sample of about `most` of them.

    Args:
      spec: the feature spec, whose filter counts.
      files: TFRecord files.
      most: the most rows.
      damaged: the files of which only the good records are read.
      group: a feature. The sample has all rows of a value, or none.
      first: if given, only this number of rows counts, the first ones.
      seed: of the sample.
    """
    random = np.random.default_rng(seed)
    parser = RecordParser(spec)
    records: list[bytes] = []
    keys = np.zeros(0)
    below, rows = np.inf, 0
    for block in Selection(spec).blocks(file_systems.ordered(files), damaged=damaged):
        size = int(tf.size(block))
        if first is not None and rows + size >= first:
            size = first - rows
            block = block[:size]
        rows += size
        if group is None:
            drawn = random.random(size)
        else:
            hashes = group_hash(parser.parse_label_feature(block, group)).numpy()
            drawn = (hashes.astype(np.float64) + 1) / _HASHES
        kept = np.flatnonzero(drawn < below)
        records += (block if len(kept) == size else tf.gather(block, kept)).numpy().tolist()
        keys = np.concatenate([keys, drawn[kept]])
        if len(keys) > 2 * most:
            records, keys, below = _fewer(records, keys, most)
        if rows == first:
            break
    if len(keys) > most:
        records, keys, below = _fewer(records, keys, most)
    return Sample(records, rows)


def _fewer(
    records: list[bytes], keys: NDArray[np.float64], most: int
) -> tuple[list[bytes], NDArray[np.float64], float]:
    """The records with a key below a bound, which at most `most` keys are.

    If more have the smallest key, because they are one group, these are the sample.
    """
    below = float(np.partition(keys, most)[most])
    if below == keys.min():
        below = float(np.nextafter(below, np.inf))
    kept = np.flatnonzero(keys < below)
    return [records[i] for i in kept], keys[kept], below


def read(spec: FeatureSpec, records: Sequence[bytes], objectives: Sequence[str]) -> Table:
    """The features of some records, and the targets of these objectives."""
    parser, reader = RecordParser(_without_defaults(spec)), LabelReader(spec)
    names, parts_of_times = names_of(spec), times_of(spec)
    features: dict[str, list[_Parts]] = {name: [] for name in (*names, *parts_of_times)}
    labels: dict[str, list[NDArray[Any]]] = {}
    for start in range(0, len(records), _BATCH):
        batch = tf.constant(list(records[start : start + _BATCH]), tf.string)
        parsed = parser.parse(batch, with_labels=True)
        for name in names:
            features[name].append(_values(spec, name, parsed[name]))
        for name in parts_of_times:
            features[name].append(_time(spec.of_kind(Time)[name], parsed))
        read_labels = reader.read(parsed)
        for objective in objectives:
            label = spec.label_of(objective)
            for key in (label, f"{label}/weight", f"{label}/group"):
                if key in read_labels and key not in labels:
                    labels[key] = []
            for key in (label, f"{label}/weight", f"{label}/group"):
                if key in read_labels:
                    labels[key].append(read_labels[key].numpy())
    read_as_names = {
        name for each in spec.used_columns() for name in _read_as_names(spec, each)
    } | {name for name in names if spec.features[name].dtype == "string"}
    whole = {key: np.concatenate(parts) for key, parts in labels.items()}
    return Table(
        {
            name: Values(
                np.concatenate([flat for flat, _ in parts]),
                np.concatenate([lengths for _, lengths in parts]),
                single=name in parts_of_times or spec.features[name].single,
                words=name not in parts_of_times and spec.features[name].dtype == "string",
                names=name in read_as_names,
            )
            for name, parts in features.items()
        },
        {name: _target(spec, name, whole) for name in objectives},
    )


def _target(spec: FeatureSpec, objective: str, labels: Mapping[str, NDArray[Any]]) -> Target:
    label = spec.label_of(objective)
    values = judged_labels(spec.objectives[objective], labels[label]).astype(np.float64)
    weights = labels.get(f"{label}/weight")
    return Target(
        values,
        np.ones(len(values)) if weights is None else weights.astype(np.float64),
        labels.get(f"{label}/group"),
    )


def _without_defaults(spec: FeatureSpec) -> FeatureSpec:
    """The spec with features of one value as lists, so that a missing value shows.

    What labels read, such as a weight, stays as it is.
    """
    others: set[Any] = set()
    for name, entry in spec.objectives.items():
        label = spec.labels[spec.label_of(name)]
        others |= {label.weight, label.true_probability, entry.group}
        others |= {part.name for part in entry.label_parts}
    change = {"shape": "variable", "default": None}
    features = {
        name: entry.model_copy(update=change)
        if entry.single and entry.default is not None and not entry.decode and name not in others
        else entry
        for name, entry in spec.features.items()
    }
    return dataclasses.replace(spec, features=features)


def _read_as_names(spec: FeatureSpec, name: str) -> Iterator[str]:
    """The features that a column, or a column below it, reads as names."""
    column = spec.columns[name]
    yield from column.names_values_of(spec)
    for below in column.below(spec):
        yield from _read_as_names(spec, below)


def _time(column: Time, parsed: Mapping[str, Any]) -> _Parts:
    """The part of a time in each row, and 1 or 0 values of a row."""
    stored = parsed[column.source]
    if not isinstance(stored, tf.RaggedTensor):
        stored = tf.RaggedTensor.from_row_lengths(stored, tf.ones_like(stored, tf.int64))
    read = times.parsed(stored.flat_values, column.format)
    ids = tf.boolean_mask(stored.value_rowids(), read.readable)
    lengths = tf.math.unsorted_segment_sum(tf.ones_like(ids), ids, stored.nrows())
    return tf.boolean_mask(times.part(read, column.part), read.readable).numpy(), lengths.numpy()


def _values(spec: FeatureSpec, name: str, parsed: Any) -> _Parts:
    """The values of a feature in a batch and the lengths of the rows."""
    feature = spec.features[name]
    if isinstance(parsed, tf.RaggedTensor):
        while parsed.ragged_rank > 1:
            parsed = parsed.merge_dims(1, 2)
        flat, lengths = parsed.flat_values, parsed.row_lengths()
    else:
        flat = tf.reshape(parsed, [-1])
        lengths = tf.fill([tf.shape(parsed)[0]], tf.constant(feature.length, tf.int64))
    missing = spec.missing_value(name)
    if feature.single and missing is not None:
        kept = tf.not_equal(flat, tf.constant(missing, flat.dtype))
        ids = tf.repeat(tf.range(tf.size(lengths)), lengths)
        lengths = tf.math.unsorted_segment_sum(tf.cast(kept, tf.int64), ids, tf.size(lengths))
        flat = tf.boolean_mask(flat, kept)
    if flat.dtype == tf.string:
        flat = tf.strings.to_hash_bucket_fast(flat, _HASHES)
    dtype = np.float64 if feature.dtype == "float32" else np.int64
    return flat.numpy().astype(dtype), lengths.numpy()
