"""Checks every record of one file: can it be read, and can it be used?

TensorFlow first reads the file at full speed. Only if it fails, or the file ends too early, does
`record_scanner` read the file again. The caller passes two functions that check payloads: one fails
for a block of records, and one explains what is wrong with a single record. A good block costs
nothing more. A block that fails is halved a few times. Then Python checks each of its records,
which costs less than more calls of TensorFlow. TensorFlow decides: a record that Python suspects is
bad if the function fails for it alone. If the function still fails for the records that Python does
not suspect, these are halved down to single records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from input_pipelines import errors
from input_pipelines.record_files import file_bytes, file_lengths, record_scanner, tfrecords
from input_pipelines.record_files.framing import FRAME
from input_pipelines.record_files.record_scanner import BadRecord, Record
from input_pipelines.transform import checks

# The most bad records of a file that a report lists. All of them are counted.
LISTED = 1000

# How many blocks are read ahead.
_AHEAD = 4

# If a failing block has at most this many records, Python checks each of them.
_LOOKED_AT = 128

# Called with the number of bytes that were read, and of bad records found, since the last call.
Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class FileReport:
    """What was found in one file.

    Attributes:
      path: the file.
      size: the size of the stored file in bytes.
      records: the number of records, good and bad.
      bad_records: the number of records that cannot be used, as `record_scanner` counts them.
      lost_bytes: the bytes of bad records. In a GZIP file, mostly unpacked bytes.
      listed: the first bad records.
      left_out: the numbers of the bad records whose framing is correct.
    """

    path: str
    size: int
    records: int
    bad_records: int
    lost_bytes: int
    listed: tuple[BadRecord, ...]
    left_out: frozenset[int]

    @property
    def good_records(self) -> int:
        return self.records - self.bad_records


class _CannotRead(Exception):
    """TensorFlow cannot read a file to its end. The message says why."""


class FileCheck:
    """Checks files. Several threads may use it at the same time.

    Args:
      function: takes a string tensor [rows]. Raises one of `checks.BAD_RECORD_ERRORS` if a record
        cannot be used; the result is ignored.
      explain: returns what is wrong with a record, as the end of a sentence; None if Python finds
        nothing.
    """

    def __init__(
        self,
        function: Callable[[tf.Tensor], Any],
        explain: Callable[[bytes], Optional[str]],
    ):
        self._function = function
        self._explain = explain

    def first_bad(self, path: str) -> Optional[BadRecord]:
        """The first bad record of a file, or None."""
        try:
            return next((bad for bad, _ in self._quickly(path, _Sums()) if bad), None)
        except _CannotRead as error:
            bad_record = next((bad for bad, _ in self._thoroughly(path, _Sums()) if bad), None)
            return bad_record or _unknown(error)

    def report(self, path: str, progress: Progress = lambda size, bad: None) -> FileReport:
        """The full report on a file.

        Args:
          path: the file.
          progress: called as the file is read. A file that is read twice counts only once.
        """
        size = file_bytes.size(path)
        reported = reported_bad = 0

        def tell(read: int) -> None:
            nonlocal reported, reported_bad
            progress(max(read - reported, 0), max(sums.bad_records - reported_bad, 0))
            reported, reported_bad = max(read, reported), max(sums.bad_records, reported_bad)

        try:
            sums = _Sums()
            for bad, read in self._quickly(path, sums):
                sums.add(bad)
                tell(0 if file_bytes.is_gzip(path) else read)
        except _CannotRead as error:
            sums = _Sums()
            for bad, read in self._thoroughly(path, sums):
                sums.add(bad)
                tell(0 if file_bytes.is_gzip(path) else read)
            if not sums.bad_records:
                sums.add(_unknown(error))
                sums.records += 1
        tell(size)
        return FileReport(
            path,
            size,
            sums.records,
            sums.bad_records,
            sums.lost_bytes,
            tuple(sums.listed),
            frozenset(sums.left_out),
        )

    def _quickly(self, path: str, sums: _Sums) -> Iterator[tuple[Optional[BadRecord], int]]:
        """Bad records, or None after a block, each with the bytes read so far."""
        if file_lengths.has_too_large(path):
            raise _CannotRead("a record is too large")
        packed = file_bytes.is_gzip(path)
        records = tf.data.TFRecordDataset(path, tfrecords.compression_type(path))
        offset = 0
        try:
            for block in records.batch(tfrecords.BLOCK).prefetch(_AHEAD):
                ends = np.cumsum(tf.strings.length(block).numpy().astype(np.int64) + FRAME)
                for i, reason in self.bad_of(block):
                    begin = int(ends[i - 1]) if i else 0
                    lost = int(ends[i]) - begin
                    number = sums.records + i
                    sums.left_out.append(number)
                    yield BadRecord(number, offset + begin, reason, lost, packed), offset
                sums.records += len(ends)
                offset += int(ends[-1])
                yield None, offset
        except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
            raise _CannotRead(errors.first_line(error)) from error
        if not file_bytes.reached_end(path, offset):
            raise _CannotRead("it ends before its last record does")

    def _thoroughly(self, path: str, sums: _Sums) -> Iterator[tuple[Optional[BadRecord], int]]:
        block: list[Record] = []
        for record in record_scanner.scan(path):
            sums.records += 1
            if isinstance(record, Record):
                block.append(record)
            if len(block) == tfrecords.BLOCK or (block and isinstance(record, BadRecord)):
                yield from self._bad_of_scanned(path, block, sums)
                block = []
            if isinstance(record, BadRecord):
                yield record, record.offset
        yield from self._bad_of_scanned(path, block, sums)

    def _bad_of_scanned(
        self, path: str, block: list[Record], sums: _Sums
    ) -> Iterator[tuple[Optional[BadRecord], int]]:
        if not block:
            return
        packed = file_bytes.is_gzip(path)
        for i, reason in self.bad_of(tf.constant([record.payload for record in block])):
            number, offset, payload = block[i]
            sums.left_out.append(number)
            yield BadRecord(number, offset, reason, len(payload) + FRAME, packed), offset

    def bad_of(self, block: tf.Tensor, first: int = 0) -> Iterator[tuple[int, str]]:
        """The place of each bad record in a block, and what is wrong with it, in order."""
        error = self._error_of(block)
        if error is None:
            return
        count = len(block)
        if count > _LOOKED_AT:
            middle = count // 2
            yield from self.bad_of(block[:middle], first)
            yield from self.bad_of(block[middle:], first + middle)
            return
        records = block.numpy()
        reasons = {}
        for i, record in enumerate(records):
            reason = self._explain(record)
            if reason is not None and (count == 1 or self._error_of(block[i : i + 1]) is not None):
                reasons[i] = reason
        others = [i for i in range(count) if i not in reasons]
        reasons.update(self._without_a_reason(records[others], others))
        for i in sorted(reasons):
            yield first + i, reasons[i]

    def _without_a_reason(self, records: np.ndarray, places: list[int]) -> dict[int, str]:
        """The bad ones among some records: TensorFlow's error message by the record's place."""
        error = self._error_of(tf.constant(records)) if places else None
        if error is None:
            return {}
        if len(places) == 1:
            return {places[0]: checks.text_of(error) or errors.first_line(error)}
        middle = len(places) // 2
        left = self._without_a_reason(records[:middle], places[:middle])
        return {**left, **self._without_a_reason(records[middle:], places[middle:])}

    def _error_of(self, block: tf.Tensor) -> Optional[Exception]:
        try:
            self._function(block)
        except checks.BAD_RECORD_ERRORS as error:
            return error
        return None


@dataclasses.dataclass
class _Sums:
    records: int = 0
    bad_records: int = 0
    lost_bytes: int = 0
    listed: list[BadRecord] = dataclasses.field(default_factory=list)
    left_out: list[int] = dataclasses.field(default_factory=list)

    def add(self, bad: Optional[BadRecord]) -> None:
        if bad is not None:
            self.bad_records += 1
            self.lost_bytes += bad.lost
            if len(self.listed) < LISTED:
                self.listed.append(bad)


def _unknown(error: Exception) -> BadRecord:
    return BadRecord(0, 0, f"TensorFlow cannot read the file: {error}", 0)
