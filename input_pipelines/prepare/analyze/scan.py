"""The one pass over the files: blocks of records into a `RecordSummary`.

Files are read in the order given, in blocks, while TensorFlow reads ahead; of each only a block is
in memory. Nothing is skipped: what cannot be read stops the pass with the file and the number of
the record.

Large data are spread over processes. What is given to a process is a group of files of about 128
MB; groups depend on the files alone and are merged in their order, so the result is the same on any
number of cores, estimates included. A single file is never split, but for Parquet files, which are
split between row groups. Tables go through `input_pipelines/prepare/tables`, which makes records
of rows.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import multiprocessing
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from input_pipelines.cores import cores
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import beam_pipeline, sketches
from input_pipelines.prepare.analyze.group_scan import scan_files, scan_parts
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.analyze.values import EXACT_LIMIT
from input_pipelines.prepare.beam import runner
from input_pipelines.prepare.tables import reader
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files import kinds

ScanGroup = Callable[[Sequence[Any], int], RecordSummary]

# Bytes of a group of files: seconds of work, against the seconds that a process takes to start.
_GROUP = 128 * 2**20


def scan(
    files: Sequence[str],
    *,
    exact_limit: int = EXACT_LIMIT,
    workers: Optional[int] = None,
    group_bytes: int = _GROUP,
    csv: CsvOptions = CsvOptions(),
    dtypes: Optional[Mapping[str, str]] = None,
    beam: Optional[Sequence[str]] = None,
) -> RecordSummary:
    """Reads all records of some files once.

    Args:
      files: paths of one kind, which their names say: Parquet, CSV, JSON lines or TFRecord, GZIP
        when the name ends in .gz.
      exact_limit: different values of a feature that are counted one by one; with more, counts
        are estimated.
      workers: processes, at most one a group of files; by default as many as there are cores.
      group_bytes: least bytes of files that one process is given at a time.
      csv: how CSV files are written.
      dtypes: of tables, types that a spec says; see `reader.open_table`.
      beam: flags of an Apache Beam pipeline (`flags.split`) that reads the files instead of
        processes of this machine, with the same result.

    Raises:
      BeamFlagsError: a pipeline cannot be made with the flags.
      DataError: there is no record, a file or record is corrupt, a feature has two types, or files
        are of two kinds, Examples and SequenceExamples.
      MissingPackageError: the package for sketches, or for tables, is not installed.
    """
    sketches.library()  # Now, and not after an hour.
    if beam is not None:
        runner.check(beam, files)
    scan_group: ScanGroup = scan_files
    groups: Sequence[Sequence[Any]]
    notes: list[str] = []
    written = csv
    if csv == CsvOptions() and kinds.kind_of_all(files) == kinds.TFRECORD:
        groups = _groups(files, group_bytes)
    else:
        table = reader.open_table(files, csv=csv, dtypes=dtypes, beam=beam)
        # A Parquet file without rows has no part.
        groups = list(table.groups(group_bytes)) or [[]]
        scan_group, notes, written = scan_parts, table.notes, table.csv
    workers = min(workers or cores(), len(groups))
    parts: Generator[RecordSummary, None, None]
    if beam is not None:
        parts = beam_pipeline.summaries(groups, exact_limit, beam)
    elif workers == 1:
        parts = (scan_group(group, exact_limit) for group in groups)
    else:
        parts = _in_processes(scan_group, groups, exact_limit, workers)
    with contextlib.closing(parts):  # So that what they hold is gone after an error, too.
        summary = next(parts)
        for part in parts:
            summary.merge(part)
    summary.csv = written
    summary.notes = [*notes, *reader.rounding_notes(summary.rounded)]
    if not summary.rows:
        raise DataError(
            f"there is no record in {files[0]}{' and the other files' if len(files) > 1 else ''}; "
            "nothing can be learned of them"
        )
    summary.check_files()
    return summary


def _groups(files: Sequence[str], least: int) -> list[list[str]]:
    """Runs of files, each of `least` bytes or more but for the last."""
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
    scan_group: ScanGroup, groups: Sequence[Sequence[Any]], exact_limit: int, workers: int
) -> Generator[RecordSummary, None, None]:
    """Summaries of groups in their order; only a few more than workers are held at a time."""
    # A fork of a process in which TensorFlow runs threads may hang for ever.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context)
    waiting: collections.deque[concurrent.futures.Future[RecordSummary]] = collections.deque()
    try:
        for group in groups:
            waiting.append(pool.submit(scan_group, group, exact_limit))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
