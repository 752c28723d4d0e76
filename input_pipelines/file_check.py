"""Looks at every record of one file: whether it can be read, and whether it can be used.

A file is read by TensorFlow first, at its speed. Only one in which TensorFlow fails, or which ends
before it should, is read again by `record_scanner`. What is asked of a payload is the caller's: a
function that fails for a block of records, and one that says of a single record why. Blocks are
halved until the record is found, so a good one costs nothing more, and of a bad one the price is
that of about two blocks of one record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from input_pipelines import checks, file_bytes, file_end, record_scanner, tfrecords
from input_pipelines.crc32c import FRAME
from input_pipelines.record_scanner import BadRecord, Record

# Bad records of a file that a report lists; all are counted.
LISTED = 1000

# Blocks that are read ahead.
_AHEAD = 4

Progress = Callable[[int], None]


@dataclasses.dataclass(frozen=True)
class FileReport:
    """What was found in one file.

    Attributes:
      path: the file.
      size: its bytes, as it is stored.
      records: good and bad ones.
      bad_records: those that cannot be used, as `record_scanner` counts them.
      lost_bytes: of bad records; of a GZIP file mostly unpacked ones.
      listed: the first bad records.
      left_out: numbers of the records whose framing is right and that cannot be used.
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
    """TensorFlow does not read a file to its end; says why where it is known."""


class FileCheck:
    """Checks files, also several at once from several threads.

    Args:
      function: raises one of `checks.BAD_RECORD_ERRORS` for a string tensor [rows] with a record
        that cannot be used, and returns anything otherwise.
      explain: what is wrong with such a record, as the end of a sentence.
    """

    def __init__(
        self,
        function: Callable[[tf.Tensor], Any],
        explain: Callable[[bytes], str],
    ):
        self._function = function
        self._explain = explain

    def first_bad(self, path: str) -> Optional[BadRecord]:
        """The first bad record of a file, or None."""
        try:
            return next((bad for bad, _ in self._quickly(path, _Sums()) if bad), None)
        except _CannotRead as error:
            found = next((bad for bad, _ in self._thoroughly(path, _Sums()) if bad), None)
            return found or _unknown(error)

    def report(self, path: str, progress: Progress = lambda size: None) -> FileReport:
        """All that there is to say of a file.

        Args:
          path: the file.
          progress: called with the bytes that were read since the last call.
        """
        size = file_bytes.size(path)
        told = 0
        try:
            sums = _Sums()
            for bad, read in self._quickly(path, sums):
                sums.add(bad)
                if not file_bytes.is_gzip(path):
                    progress(read - told)
                    told = read
        except _CannotRead as error:
            sums = _Sums()
            for bad, _ in self._thoroughly(path, sums):
                sums.add(bad)
            if not sums.bad_records:
                sums.add(_unknown(error))
                sums.records += 1
        progress(size - told)
        return FileReport(
            path, size, sums.records, sums.bad_records, sums.lost_bytes, tuple(sums.listed),
            frozenset(sums.left_out),
        )  # fmt: skip

    def _quickly(self, path: str, sums: _Sums) -> Iterator[tuple[Optional[BadRecord], int]]:
        """Bad records, or None after a block, each with the bytes read so far."""
        packed = file_bytes.is_gzip(path)
        records = tf.data.TFRecordDataset(path, tfrecords.compression_type(path))
        offset = 0
        try:
            for block in records.batch(tfrecords.BLOCK).prefetch(_AHEAD):
                ends = np.cumsum(tf.strings.length(block).numpy().astype(np.int64) + FRAME)
                for i, reason in self._bad_of(block, 0):
                    begin = int(ends[i - 1]) if i else 0
                    lost = int(ends[i]) - begin
                    number = sums.records + i
                    sums.left_out.append(number)
                    yield BadRecord(number, offset + begin, reason, lost, packed), offset
                sums.records += len(ends)
                offset += int(ends[-1])
                yield None, offset
        except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
            raise _CannotRead(tfrecords.first_line(error)) from error
        if not file_end.reached_end(path, offset):
            raise _CannotRead("it ends before its last record does")

    def _thoroughly(self, path: str, sums: _Sums) -> Iterator[tuple[Optional[BadRecord], int]]:
        block: list[Record] = []
        for found in record_scanner.scan(path):
            sums.records += 1
            if isinstance(found, Record):
                block.append(found)
            if len(block) == tfrecords.BLOCK or (block and isinstance(found, BadRecord)):
                yield from self._bad_of_scanned(path, block, sums)
                block = []
            if isinstance(found, BadRecord):
                yield found, found.offset
        yield from self._bad_of_scanned(path, block, sums)

    def _bad_of_scanned(
        self, path: str, block: list[Record], sums: _Sums
    ) -> Iterator[tuple[Optional[BadRecord], int]]:
        if not block:
            return
        packed = file_bytes.is_gzip(path)
        for i, reason in self._bad_of(tf.constant([record.payload for record in block]), 0):
            number, offset, payload = block[i]
            sums.left_out.append(number)
            yield BadRecord(number, offset, reason, len(payload) + FRAME, packed), offset

    def _bad_of(self, block: tf.Tensor, first: int) -> Iterator[tuple[int, str]]:
        """The place in a block of each record that cannot be used, and why, in order."""
        try:
            self._function(block)
            return
        except checks.BAD_RECORD_ERRORS:
            count = len(block)
        if count == 1:
            yield first, self._explain(block[0].numpy())
            return
        middle = count // 2
        yield from self._bad_of(block[:middle], first)
        yield from self._bad_of(block[middle:], first + middle)


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
