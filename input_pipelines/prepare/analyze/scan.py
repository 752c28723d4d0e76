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
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import multiprocessing
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any, Optional

import pydantic
import tensorflow as tf

from feature_specs.sections.records import Condition
from input_pipelines.errors import DataError, cores
from input_pipelines.prepare import beam_runner
from input_pipelines.prepare.analyze import (
    group_scan,
    numbers,
    summary_json,
)
from input_pipelines.prepare.analyze.group_scan import scan_files, scan_parts
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.analyze.values import EXACT_LIMIT
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.table_format import Part
from input_pipelines.record_files import kinds

_PARTS = pydantic.TypeAdapter(list[Part])
_FILES = pydantic.TypeAdapter(list[str])
_COMMON = pydantic.TypeAdapter(tuple[int, tuple[Condition, ...]])


def summaries(
    groups: Sequence[Sequence[Any]],
    exact_limit: int,
    conditions: Sequence[Condition],
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
        common = _COMMON.dump_json((exact_limit, tuple(conditions)), by_alias=True)
        for result in beam_runner.run(_work, common, pieces, folder=folder, flags=flags):
            yield summary_json.from_bytes(result)


# --- On a worker ----------------------------------------------------------------------------------


def _work(common: bytes, piece: bytes) -> bytes:
    """Returns the summary of a group."""
    kind, _, content = piece.partition(b" ")
    how = _COMMON.validate_json(common)
    if kind == b"parts":
        summary = group_scan.scan_parts(_PARTS.validate_json(content), *how)
    else:
        summary = group_scan.scan_files(_FILES.validate_json(content), *how)
    return summary_json.to_bytes(summary)


ScanGroup = Callable[[Sequence[Any], int, Sequence[Condition]], RecordSummary]

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
        parts = summaries(groups, exact_limit, conditions, beam)
    elif workers == 1:
        parts = (scan_group(group, exact_limit, conditions) for group in groups)
    else:
        parts = _in_processes(scan_group, groups, exact_limit, conditions, workers)
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
    exact_limit: int,
    conditions: Sequence[Condition],
    workers: int,
) -> Generator[RecordSummary, None, None]:
    """The summaries of groups in order. Only slightly more than `workers` are in memory."""
    # If TensorFlow runs threads in a process, a fork of it may hang forever.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
    waiting: collections.deque[concurrent.futures.Future[RecordSummary]] = collections.deque()
    try:
        for group in groups:
            waiting.append(pool.submit(scan_group, group, exact_limit, conditions))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
