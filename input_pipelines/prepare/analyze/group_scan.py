"""The work of one worker of `scan`: summarizes some files or parts of a table.

Only the records that meet the conditions of a spec's filter count, as in training. Batches of a
table become the same blocks as `wire` makes from serialized records: a null is a feature that a
record lacks. Only text is copied value by value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Union

import numpy as np

from feature_specs.sections.records import Condition
from input_pipelines.errors import DataError, first_line
from input_pipelines.prepare.analyze.protobuf_records import NotAnExample
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.analyze.wire import FeatureBlock, parse_block
from input_pipelines.prepare.convert import value_checks
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.table_format import Part
from input_pipelines.reading import selection
from input_pipelines.record_files import tfrecords
from input_pipelines.transform import checks


def blocks(batch: Any) -> dict[str, list[FeatureBlock]]:
    """The features of the rows of a record batch with the types of `tables.columns`."""
    return {name: [_block(column)] for name, column in zip(batch.schema.names, batch.columns)}


def _block(column: Any) -> FeatureBlock:
    if column.null_count == len(column):
        # Like a record with the name but no value: the feature is known, but has no type.
        one = np.zeros(min(1, len(column)), np.int64)
        return FeatureBlock("", one, one, np.zeros(0, np.float32))
    rows = np.arange(len(column))
    if column.null_count:
        rows = np.flatnonzero(np.asarray(column.is_valid()))
        column = column.drop_null()
    lengths = np.ones(len(rows), np.int64)
    if hasattr(column.type, "value_type"):
        lengths = np.diff(np.asarray(column.offsets).astype(np.int64)).astype(np.int64)
        column = column.flatten()
    values: Union[np.ndarray, list[bytes]]
    if str(column.type) in ("int64", "float"):
        dtype, values = str(column.type).replace("float", "float32"), np.asarray(column)
    elif str(column.type) == "binary":
        dtype, values = "string", column.to_pylist()
    else:  # Lists without a value have no type.
        dtype, values = "", np.zeros(0, np.float32)
    if not int(lengths.sum()):
        dtype = ""
    return FeatureBlock(dtype, rows, lengths, values)


# How many blocks are parsed together. Long arrays make the cost of each NumPy call negligible.
_BLOCKS = 8


def scan_files(
    files: Sequence[str], exact_limit: int, conditions: Sequence[Condition] = ()
) -> RecordSummary:
    """The summary of the records in some files that meet all conditions."""
    summary = RecordSummary(exact_limit)
    for path in files:
        before, counted, lists = 0, 0, False
        for records in _chunks(path):
            verdicts = selection.verdicts(records, conditions)
            places = np.flatnonzero([verdict is not False for verdict in verdicts])
            try:
                features = parse_block([records[i] for i in places])
            except NotAnExample as error:
                raise DataError(
                    f"{path}: record {before + places[error.row]}: is not a serialized "
                    "tf.train.Example or SequenceExample"
                ) from error
            for i, verdict in enumerate(verdicts):
                if isinstance(verdict, Exception):
                    text = checks.text_of(verdict) or first_line(verdict)
                    raise _undecided(path, before + i, f": {text}")
            _add(summary, features, places, len(records), path, before)
            before += len(records)
            counted += len(places)
            lists = lists or any(b.feature_list for blocks in features.values() for b in blocks)
        if counted:
            summary.see_file(path, feature_lists=lists)
    return summary


def scan_parts(
    parts: Sequence[Part], exact_limit: int, conditions: Sequence[Condition] = ()
) -> RecordSummary:
    """The summary of the rows in some parts of a table that meet all conditions."""
    summary = RecordSummary(exact_limit)
    for part in parts:
        for rows in reader.read(part, summary.rounded):
            good, undecided = value_checks.verdicts(rows.batch, conditions)
            if undecided.any():
                raise _undecided(rows.path, rows.first + int(undecided.argmax()), "")
            places = np.flatnonzero(good)
            batch = rows.batch.take(arrow().array(places)) if conditions else rows.batch
            features = blocks(batch)
            _add(summary, features, places, len(good), rows.path, rows.first)
    return summary


def _add(
    summary: RecordSummary,
    found: dict[str, list[FeatureBlock]],
    places: np.ndarray,
    read: int,
    path: str,
    before: int,
) -> None:
    """Adds the records that were parsed from these places among `read` records of a file."""
    if len(places) < read:
        found = {
            name: [dataclasses.replace(block, rows=places[block.rows]) for block in blocks]
            for name, blocks in found.items()
        }
    summary.add(found, len(places), path, before)
    summary.dropped += read - len(places)


def _undecided(path: str, record: int, reason: str) -> DataError:
    return DataError(
        f"{path}: record {record}: a feature that the filter of the spec compares has no usable "
        f"value{reason}. Give the feature a default in the spec, or repair the record"
    )


def _chunks(path: str) -> Iterator[list[bytes]]:
    """The records of a file, several blocks at a time."""
    records: list[bytes] = []
    try:
        for i, block in enumerate(tfrecords.blocks([path]).prefetch(_BLOCKS), start=1):
            records += block.numpy().tolist()
            if i % _BLOCKS == 0:
                yield records
                records = []
    except tfrecords.READ_ERRORS:
        reason = tfrecords.corruption(path)
        if reason is None:
            raise
        raise DataError(reason) from None
    if records:
        yield records
