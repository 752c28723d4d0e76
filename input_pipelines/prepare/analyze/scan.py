"""Reads all files once, block by block, and summarizes their records in a `RecordSummary`.

Files are read in the given order while TensorFlow reads ahead. Only a block of a file is in memory.
Nothing is skipped: a record that cannot be read is an error with the file and the number of the
record.

Several processes share large data. Each process gets groups of files of about 128 MB. The groups
depend only on the files, and their summaries are merged in order. So the result, including
estimates, is the same with any number of cores. Only Parquet files are split, between row groups.
`input_pipelines/prepare/tables` reads tables.

With flags of Apache Beam, each element of a pipeline is one of the same groups. Its summary comes
back as JSON, through a folder that the workers can reach. This program merges the summaries in the
order of the files: in another order, estimates of merged sketches would differ a little.

Only the records that meet the conditions of a spec's filter count, as in training. Batches of a
table become the same blocks as `wire` makes from serialized records: a null is a feature that a
record lacks. Only text is copied value by value.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import pydantic
import tensorflow as tf

from feature_specs.sections.records import Condition
from input_pipelines.errors import DataError, cores, first_line
from input_pipelines.prepare import beam_runner
from input_pipelines.prepare.analyze import numbers, summary
from input_pipelines.prepare.analyze.feature_block import FeatureBlock
from input_pipelines.prepare.analyze.protobuf_records import NotAnExample
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.analyze.values import EXACT_LIMIT
from input_pipelines.prepare.analyze.wire import parse_block
from input_pipelines.prepare.convert import value_checks
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.table_format import Part
from input_pipelines.reading import selection
from input_pipelines.record_files import kinds, record_lists, tfrecords
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
    files: Sequence[str],
    exact_limit: int,
    conditions: Sequence[Condition] = (),
    sample: bool = False,
) -> RecordSummary:
    """The summary of the records in some files that meet all conditions."""
    summary = RecordSummary(exact_limit, sample=sample)
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
    parts: Sequence[Part],
    exact_limit: int,
    conditions: Sequence[Condition] = (),
    sample: bool = False,
) -> RecordSummary:
    """The summary of the rows in some parts of a table that meet all conditions."""
    summary = RecordSummary(exact_limit, sample=sample)
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
    blocks_by_name: dict[str, list[FeatureBlock]],
    places: np.ndarray,
    read: int,
    path: str,
    before: int,
) -> None:
    """Adds the records that were parsed from these places among `read` records of a file."""
    if len(places) < read:
        blocks_by_name = {
            name: [dataclasses.replace(block, rows=places[block.rows]) for block in blocks]
            for name, blocks in blocks_by_name.items()
        }
    summary.add(blocks_by_name, len(places), path, before)
    if summary.sample is not None:
        summary.sample.add(blocks_by_name, places, path, before)
    summary.dropped += read - len(places)


def _undecided(path: str, record: int, reason: str) -> DataError:
    return DataError(
        f"{path}: record {record}: a feature that the filter of the spec compares has no usable "
        f"value{reason}. Give the feature a default in the spec, or repair the record"
    )


def _chunks(path: str) -> Iterator[list[bytes]]:
    """The records of a file, several blocks at a time."""
    try:
        yield from record_lists.of_files([path], _BLOCKS * tfrecords.BLOCK)
    except tfrecords.READ_ERRORS:
        reason = tfrecords.corruption(path)
        if reason is None:
            raise
        raise DataError(reason) from None


_PARTS = pydantic.TypeAdapter(list[Part])
_FILES = pydantic.TypeAdapter(list[str])
_COMMON = pydantic.TypeAdapter(tuple[int, tuple[Condition, ...], bool])


def summaries(
    groups: Sequence[Sequence[Any]],
    exact_limit: int,
    conditions: Sequence[Condition],
    sample: bool,
    flags: Sequence[str],
) -> Generator[RecordSummary, None, None]:
    """Yields the summaries of groups of files, or of parts of tables, in their order."""
    pieces = (
        b"parts " + _PARTS.dump_json(list(group))
        if group and isinstance(group[0], Part)
        else b"files " + _FILES.dump_json(list(group))
        for group in groups
    )
    with beam_runner.scratch(flags) as folder:
        # `in`, a field of Filter, is an alias.
        common = _COMMON.dump_json((exact_limit, tuple(conditions), sample), by_alias=True)
        for result in beam_runner.run(_work, common, pieces, folder=folder, flags=flags):
            yield summary.from_bytes(result)


# --- On a worker ----------------------------------------------------------------------------------


def _work(common: bytes, piece: bytes) -> bytes:
    """Returns the summary of a group."""
    kind, _, content = piece.partition(b" ")
    how = _COMMON.validate_json(common)
    if kind == b"parts":
        result = scan_parts(_PARTS.validate_json(content), *how)
    else:
        result = scan_files(_FILES.validate_json(content), *how)
    return summary.to_bytes(result)


ScanGroup = Callable[[Sequence[Any], int, Sequence[Condition], bool], RecordSummary]

# Gets the rows read since the last call, the groups of files that are done, and all groups.
OnProgress = Callable[[int, int, int], None]

# Bytes of a group of files. A group takes several seconds, and starting a process takes some, too.
_GROUP = 128 * 2**20


def scan(
    files: Sequence[str],
    *,
    exact_limit: int = EXACT_LIMIT,
    workers: Optional[int] = None,
    group_bytes: int = _GROUP,
    csv: CsvOptions = CsvOptions(),
    dtypes: Optional[Mapping[str, str]] = None,
    lists: Collection[str] = (),
    conditions: Sequence[Condition] = (),
    sample: bool = False,
    beam: Optional[Sequence[str]] = None,
    on_progress: OnProgress = lambda rows, done, groups: None,
) -> RecordSummary:
    """Reads all records of some files once.

    Args:
      files: paths of one kind, by their names: Parquet, CSV, JSON lines or TFRecord, and GZIP if
        the name ends in .gz.
      exact_limit: how many different values of a feature are counted exactly. With more values,
        counts are estimated.
      workers: the number of processes, at most one for each group; by default the number of cores.
      group_bytes: the least bytes of files in a group.
      csv: how CSV files are written.
      dtypes, lists: for tables, the types and the lists in a spec; see `reader.open_table`.
      conditions: of a spec's filter. Records that do not meet them are read, but do not count.
      sample: whether the summary also has a sample of the rows.
      beam: flags of an Apache Beam pipeline (`flags.split`) that reads the files instead of
        processes on this machine. The result is the same.
      on_progress: see `OnProgress`. Not used by a pipeline, which shows its progress itself.

    Raises:
      BeamFlagsError: a pipeline cannot be made with the flags.
      DataError: the files have no records, a file or record is corrupt, a feature has two types, or
        some files have Examples and others SequenceExamples.
      MissingPackageError: the package for sketches, or for tables, is not installed.
    """
    numbers.library()  # Fail now, not after an hour.
    if beam is not None:
        beam_runner.check(beam, files)
    scan_group: ScanGroup = scan_files
    groups: Sequence[Sequence[Any]]
    notes: list[str] = []
    written = csv
    if csv == CsvOptions() and kinds.kind_of_all(files) == kinds.TFRECORD:
        groups = _groups(files, group_bytes)
    else:
        table = reader.open_table(files, csv=csv, dtypes=dtypes, lists=lists, beam=beam)
        # A Parquet file without rows has no part.
        groups = list(table.groups(group_bytes)) or [[]]
        scan_group, notes, written = scan_parts, table.notes, table.csv
    workers = min(workers or cores(), len(groups))
    parts: Generator[RecordSummary, None, None]
    if beam is not None:
        parts = summaries(groups, exact_limit, conditions, sample, beam)
    elif workers == 1:
        parts = (scan_group(group, exact_limit, conditions, sample) for group in groups)
    else:
        how = (exact_limit, conditions, sample)
        parts = _in_processes(scan_group, groups, how, workers)
    with contextlib.closing(parts):  # Releases their resources even after an error.
        summary = next(parts)
        on_progress(summary.rows + summary.dropped, 1, len(groups))
        for done, part in enumerate(parts, start=2):
            on_progress(part.rows + part.dropped, done, len(groups))
            summary.merge(part)
    summary.csv = written
    summary.filter = [condition.filter.as_dict() for condition in conditions]
    summary.notes = [*notes, *reader.rounding_notes(summary.rounded)]
    if not summary.rows + summary.dropped:
        raise DataError(
            f"{files[0]} has no records to analyze"
            if len(files) == 1
            else f"{files[0]} and the other {len(files) - 1} files have no records to analyze"
        )
    summary.check_files()
    return summary


def _groups(files: Sequence[str], least: int) -> list[list[str]]:
    """Runs of files. Each has `least` bytes or more, except for the last one."""
    groups: list[list[str]] = [[]]
    size = 0
    for path in files:
        if size >= least:
            groups.append([])
            size = 0
        groups[-1].append(path)
        size += int(tf.io.gfile.stat(path).length)
    return groups


def _in_processes(
    scan_group: ScanGroup,
    groups: Sequence[Sequence[Any]],
    how: tuple[int, Sequence[Condition], bool],
    workers: int,
) -> Generator[RecordSummary, None, None]:
    """The summaries of groups in order. Only slightly more than `workers` are in memory."""
    # If TensorFlow runs threads in a process, a fork of it may hang forever.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
    waiting: collections.deque[concurrent.futures.Future[RecordSummary]] = collections.deque()
    try:
        for group in groups:
            waiting.append(pool.submit(scan_group, group, *how))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
