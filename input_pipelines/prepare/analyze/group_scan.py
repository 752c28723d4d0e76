"""The work of one worker of `scan`: summarizes some files or parts of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import table_blocks
from input_pipelines.prepare.analyze.protobuf_records import NotAnExample
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.analyze.wire import parse_block
from input_pipelines.prepare.tables import reader
from input_pipelines.record_files import tfrecords

# How many blocks are parsed together. Long arrays make the cost of each NumPy call negligible.
_BLOCKS = 8


def scan_files(files: Sequence[str], exact_limit: int) -> RecordSummary:
    """The summary of the records in some files."""
    summary = RecordSummary(exact_limit)
    for path in files:
        before, lists = 0, False
        for records in _chunks(path):
            try:
                found = parse_block(records)
            except NotAnExample as error:
                raise DataError(
                    f"{path}: record {before + error.row}: is not a serialized tf.train.Example "
                    "or SequenceExample"
                ) from error
            summary.add(found, len(records), path, before)
            before += len(records)
            lists = lists or any(b.feature_list for blocks in found.values() for b in blocks)
        if before:
            summary.see_file(path, feature_lists=lists)
    return summary


def scan_parts(parts: Sequence[reader.Part], exact_limit: int) -> RecordSummary:
    """The summary of the rows in some parts of a table."""
    summary = RecordSummary(exact_limit)
    for part in parts:
        for rows in reader.read(part, summary.rounded):
            summary.add(table_blocks.blocks(rows.batch), rows.batch.num_rows, rows.path, rows.first)
    return summary


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
