"""The rows that check an export: records, and the features that the input pipeline makes of them.

They are the first rows of the files, and the unusual rows among the first 100,000, which show best
whether an export reads like the input pipeline. For each column, these are the first row without an
id (a missing value, or a value outside a vocabulary), and the rows with the smallest and largest
number or id, and the shortest and longest list. For each stored feature: the first row with an
empty string, and the row with the longest string. Only a few numbers are kept for each column, and
never a row.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines import errors
from input_pipelines.eager import as_written
from input_pipelines.input_fns import predict_input_fn
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import tfrecords
from input_pipelines.transform import checks, record_parsing, serving_inputs
from input_pipelines.transform.record_parsing import RecordParser
from input_pipelines.transform.transforms import Transform


class UnusualRows:
    """The unusual rows of those added so far."""

    def __init__(self) -> None:
        # (name, what is unusual) -> (its size, the row), over all rows that were added.
        self._unusual_rows: dict[tuple[str, str], tuple[float, int]] = {}

    @property
    def places(self) -> list[int]:
        """The sorted numbers of the unusual rows."""
        return sorted({row for _, row in self._unusual_rows.values()})

    def add(self, first: int, values: Mapping[str, Any]) -> None:
        """Looks at a batch of rows.

        Args:
          first: the number of the batch's first row.
          values: arrays [rows, ...] or ragged values, by name.
        """
        for name, value in values.items():
            if hasattr(value, "nested_row_splits"):
                splits = value.nested_row_splits
                lengths = np.diff(splits[0])
                self._extremes(name, "length", first, lengths, np.arange(len(lengths)))
                rows = np.arange(len(lengths))
                for inner in splits:
                    rows = np.repeat(rows, np.diff(inner))
                self._values(name, first, np.asarray(value.flat_values), rows)
            else:
                array = np.asarray(value)
                width = int(np.prod(array.shape[1:], dtype=np.int64))
                self._values(name, first, array.reshape(-1), np.arange(len(array)).repeat(width))

    def _values(self, name: str, first: int, flat: np.ndarray, rows: np.ndarray) -> None:
        if not len(flat):
            return
        if flat.dtype.kind in "OS":
            flat = np.array([len(word) for word in flat])
            self._see(name, "empty", 0.0, first, rows[flat == 0])
        elif flat.dtype.kind in "iu":
            self._see(name, "none", 0.0, first, rows[flat == -1])
            flat, rows = flat[flat != -1], rows[flat != -1]
        self._extremes(name, "value", first, flat, rows)

    def _extremes(
        self, name: str, what: str, first: int, flat: np.ndarray, rows: np.ndarray
    ) -> None:
        if len(flat):
            lowest, highest = int(np.argmin(flat)), int(np.argmax(flat))
            self._see(name, f"least {what}", float(flat[lowest]), first, rows[[lowest]])
            self._see(name, f"largest {what}", -float(flat[highest]), first, rows[[highest]])

    def _see(self, name: str, what: str, size: float, first: int, rows: np.ndarray) -> None:
        """Keeps the first of these rows if its size is smaller than before."""
        if len(rows):
            before = self._unusual_rows.get((name, what))
            if before is None or size < before[0]:
                self._unusual_rows[name, what] = (size, first + int(rows[0]))


_log = logging.getLogger("estimator_kit")

ROWS = 100

# The number of rows that are searched for unusual ones, and the batch size.
_LOOK = 100_000
_BATCH = 1024


@dataclasses.dataclass(frozen=True)
class SampleRows:
    """Some rows of files, in order.

    Attributes:
      places: the numbers of the rows in the sorted files, from 0. Rows that the spec's filter drops
        do not count.
      files: the files.
      records: the serialized records, as they are stored.
      features: the features of `predict_input_fn` for these rows, as a session returns them.
      raw: the same rows as the tensors of a request; see `serving_inputs`.
      sendable: bool [rows]; whether a row of `raw` means the same as its record.
    """

    files: tuple[str, ...]
    records: Sequence[bytes]
    features: Mapping[str, Any]
    raw: Mapping[str, np.ndarray]
    sendable: np.ndarray
    places: tuple[int, ...] = ()

    @property
    def sent(self) -> dict[str, np.ndarray]:
        """`raw` of the rows that can be sent."""
        return {name: values[self.sendable] for name, values in self.raw.items()}


def sample_rows(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    count: int = ROWS,
    all_rows: bool = False,
) -> Optional[SampleRows]:
    """The first `count` rows of the sorted files, or None if they have no rows.

    Rows that the spec's filter drops are left out, unless `all_rows` is true.

    Raises TensorFlow's errors of reading; see `session_errors.explained`.
    """
    if spec.filter and not all_rows:
        with tf.Graph().as_default(), tf.compat.v1.Session(config=on_cpu()) as session:
            passing = _first(_records(spec, files, count, damaged))
            session.run(tf.compat.v1.get_collection(_ITERATORS))
            try:
                kept = session.run(passing)
            except tf.errors.OutOfRangeError:
                kept = []
        return _of_records(spec, files, dict(enumerate(kept)))
    with tf.Graph().as_default(), tf.compat.v1.Session(config=on_cpu()) as session:
        ordered = file_systems.ordered(files)
        features = _first(predict_input_fn(spec, ordered, batch_size=count, damaged=damaged)())
        records = _first(tfrecords.blocks(ordered, damaged=damaged).rebatch(count))
        flat = RecordParser(spec).flat(records, with_labels=False)
        session.run(tf.compat.v1.tables_initializer())
        session.run(tf.compat.v1.get_collection(_ITERATORS))
        tf.compat.v1.get_default_graph().clear_collection(_ITERATORS)
        try:
            values, stored, parts = session.run([features, records, flat])
        except tf.errors.OutOfRangeError:
            return None
    return SampleRows(
        tuple(ordered),
        list(stored),
        values,
        serving_inputs.filled(spec, parts),
        serving_inputs.sendable(spec, parts),
        tuple(range(len(stored))),
    )


def unusual_rows(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    count: int = ROWS,
) -> Optional[SampleRows]:
    """Like `sample_rows`, followed by the unusual rows of the files."""
    unusual = UnusualRows()
    first = 0
    records: dict[int, bytes] = {}  # The rows that are wanted so far, by their places.
    try:
        for values, batch in _batches(spec, files, damaged):
            unusual.add(first, values)
            here = {first + i: record for i, record in enumerate(batch)}
            wanted = {*range(count), *unusual.places}
            records = {place: r for place, r in {**records, **here}.items() if place in wanted}
            first += len(batch)
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        _log.warning(
            "The rows that check exports are chosen from the first %s rows, because a later row "
            "cannot be read: %s",
            f"{first:,}",
            checks.text_of(error) or errors.first_line(error),
        )
    if len(records) <= min(count, first):
        return sample_rows(spec, files, damaged=damaged, count=count)
    return _of_records(spec, files, records)


def _of_records(
    spec: FeatureSpec, files: Sequence[str], records: Mapping[int, bytes]
) -> Optional[SampleRows]:
    """The rows of some records of files, given by their places."""
    if not records:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for place in sorted(records):
                writer.write(records[place])
        rows = sample_rows(spec, [path], count=len(records), all_rows=True)
    assert rows is not None
    return dataclasses.replace(
        rows, files=tuple(file_systems.ordered(files)), places=tuple(sorted(records))
    )


def _batches(
    spec: FeatureSpec, files: Sequence[str], damaged: tfrecords.Damaged
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yields batches of rows: the values that the model and a request read, and the records."""
    decodes = any(feature.decode is not None for feature in spec.features.values())
    size = ROWS if decodes else _BATCH
    with tf.Graph().as_default(), tf.compat.v1.Session(config=on_cpu()) as session:
        records = _first(_records(spec, files, size, damaged))
        features = Transform(spec).features(record_parsing.checked(spec, records))
        flat = RecordParser(spec).flat(records, with_labels=False)
        values = {
            **{f"column {name}": value for name, value in features.items()},
            **{f"feature {name}": value for name, value in flat.items()},
        }
        session.run(tf.compat.v1.tables_initializer())
        session.run(tf.compat.v1.get_collection(_ITERATORS))
        tf.compat.v1.get_default_graph().clear_collection(_ITERATORS)
        for _ in range(_LOOK // size):
            try:
                yield session.run([values, records])
            except tf.errors.OutOfRangeError:
                return


def on_cpu() -> Any:
    """A session config for the CPU: it leaves GPUs to training, and answers alike everywhere."""
    return tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={"GPU": 0})


_ITERATORS = "estimator_kit/sample_iterators"


def _first(dataset: tf.data.Dataset) -> Any:
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    tf.compat.v1.add_to_collection(_ITERATORS, iterator.initializer)
    return iterator.get_next()


@as_written
def _records(
    spec: FeatureSpec, files: Sequence[str], count: int, damaged: tfrecords.Damaged
) -> tf.data.Dataset:
    """Batches of the records that the spec's filter keeps."""
    kept = Selection(spec).blocks(file_systems.ordered(files), damaged=damaged).rebatch(count)
    return kept.filter(lambda records: tf.size(records) > 0)
