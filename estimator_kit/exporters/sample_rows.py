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
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines import errors
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import record_lists, tfrecords
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
    with _Pipeline(spec) as pipeline:
        records = next(_lists(spec, files, count, damaged, all_rows=all_rows), [])
        return pipeline.rows_of(files, dict(enumerate(records)))


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
    decodes = any(feature.decode is not None for feature in spec.features.values())
    size = ROWS if decodes else _BATCH
    with _Pipeline(spec) as pipeline:
        try:
            for batch in itertools.islice(_lists(spec, files, size, damaged), _LOOK // size):
                features, parts = pipeline.of(batch)
                unusual.add(first, {f"column {name}": value for name, value in features.items()})
                unusual.add(first, {f"feature {name}": value for name, value in parts.items()})
                here = {first + i: record for i, record in enumerate(batch)}
                wanted = {*range(count), *unusual.places}
                records = {place: r for place, r in {**records, **here}.items() if place in wanted}
                first += len(batch)
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            _log.warning(
                "The rows that check exports are chosen from the first %s rows, because a later "
                "row cannot be read: %s",
                f"{first:,}",
                checks.text_of(error) or errors.first_line(error),
            )
        if len(records) <= min(count, first):
            records = dict(enumerate(next(_lists(spec, files, count, damaged), [])))
        return pipeline.rows_of(files, records)


def _lists(
    spec: FeatureSpec,
    files: Sequence[str],
    size: int,
    damaged: tfrecords.Damaged,
    *,
    all_rows: bool = False,
) -> Iterator[list[bytes]]:
    """The records of the sorted files that the spec's filter keeps, or all of them."""
    ordered = file_systems.ordered(files)
    if all_rows:
        return record_lists.of_files(ordered, size, damaged=damaged)
    return Selection(spec).lists(ordered, size, damaged=damaged)


class _Pipeline:
    """What `predict_input_fn` and a request make of records, in a separate graph."""

    def __init__(self, spec: FeatureSpec):
        self._spec = spec

    def __enter__(self) -> _Pipeline:
        with tf.Graph().as_default() as graph:
            self._records = tf.compat.v1.placeholder(tf.string, [None])
            checked = record_parsing.checked(self._spec, self._records)
            self._made = (
                Transform(self._spec).features(checked),
                RecordParser(self._spec).flat(checked, with_labels=False),
            )
            tables = tf.compat.v1.tables_initializer()
        self._session = tf.compat.v1.Session(graph=graph, config=on_cpu())
        try:
            self._session.run(tables)
        except BaseException:
            self._session.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._session.close()

    def of(self, records: Sequence[bytes]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The features of the model, and the stored features, for some records."""
        fed = {self._records: np.array(records, np.object_)}
        features, parts = self._session.run(self._made, fed)
        return features, parts

    def rows_of(self, files: Sequence[str], records: Mapping[int, bytes]) -> Optional[SampleRows]:
        """The rows of some records of files, given by their places; None without a record."""
        if not records:
            return None
        places = tuple(sorted(records))
        stored = [records[place] for place in places]
        features, parts = self.of(stored)
        return SampleRows(
            tuple(file_systems.ordered(files)),
            stored,
            features,
            serving_inputs.filled(self._spec, parts),
            serving_inputs.sendable(self._spec, parts),
            places,
        )


def on_cpu() -> Any:
    """A session config for the CPU: it leaves GPUs to training, and answers alike everywhere."""
    return tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={"GPU": 0})
