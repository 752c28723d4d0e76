"""The files of a request log: TFRecords that appear whole, rotate, and have a bounded total size.

    requests-20260105T133000Z-1234-0.tfrecord        UTC time of its first record, process, number
    .tmp-requests-20260105T133000Z-1234-0.tfrecord-1     the file that is being written

A file gets its name after `secs` seconds or `file_bytes` bytes, or at the end. When all files of
the folder have more than `keep_bytes` bytes, the oldest are removed. What a killed server has left
under a temporary name gets its name when the next server starts (`recover`), if the file system has
locks.

An error of the disk does not raise: the records that are lost are counted, and the next records are
tried again. One thread uses a `LogFiles`. It reads no clock.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Optional

from feature_specs.errors import ConfigError
from feature_specs.files import file_systems, locks, staged
from input_pipelines.errors import DataError
from input_pipelines.record_files import framing

_log = logging.getLogger("estimator_kit")

_NAME = r"requests-\d{8}T\d{6}Z-\d+-\d+\.tfrecord"
_LOG_FILE = re.compile(_NAME)
_LEFT = re.compile(rf"{re.escape(staged.TEMPORARY)}({_NAME})-\w+")

# At most this many bytes are joined before they are written.
_CHUNK = 2**20

# What happened to a number of records, and why: `written` or `failed`.
Tell = Callable[[str, int, str], None]


class _Discarded(Exception):
    pass


class _Open(NamedTuple):
    """The file that is being written: how it gets its name, its handle, and when it must close."""

    staging: contextlib.ExitStack
    handle: int
    due: float


class LogFiles:
    """Writes records into files of a folder.

    Args:
      folder: the folder; it is made if it does not exist.
      secs: seconds after which a file gets its name.
      file_bytes: bytes after which a file gets its name.
      keep_bytes: the most bytes of all named files together; 0 removes none.
      tell: told how many records are in files with a name now, and how many were lost.
    """

    def __init__(self, folder: str, *, secs: float, file_bytes: int, keep_bytes: int, tell: Tell):
        self._folder, self._secs = folder, secs
        self._file_bytes, self._keep_bytes = file_bytes, keep_bytes
        self._tell = tell
        self._open: Optional[_Open] = None
        self._size = self._records = self._number = 0
        self.files = self.removed = 0

    def write(self, records: Iterable[bytes], now: float) -> None:
        """Appends records. `now` is in seconds since 1970."""
        self.rotate(now)
        waiting: list[bytes] = []
        size = 0
        for record in records:
            try:
                waiting.append(framing.framed([record]))
            except DataError as error:
                self._tell("failed", 1, str(error))
                continue
            size += len(waiting[-1])
            if size >= _CHUNK or self._size + size >= self._file_bytes:
                self._append(waiting, now)
                waiting, size = [], 0
        self._append(waiting, now)

    def rotate(self, now: float) -> None:
        """Gives the open file its name if its time is over."""
        if self._open is not None and now >= self._open.due:
            self.close()

    def close(self) -> None:
        """Gives the open file its name, and removes the oldest files if there are too many."""
        if self._open is None:
            return
        (staging, handle, _), self._open = self._open, None
        count, self._records = self._records, 0
        try:
            os.close(handle)
            with contextlib.suppress(_Discarded), staging:
                if not count:
                    raise _Discarded
        except OSError as error:
            self._tell("failed", count, str(error))
            return
        if count:
            self.files += 1
            self._tell("written", count, "")
            self._remove_oldest()

    def _append(self, frames: list[bytes], now: float) -> None:
        if not frames:
            return
        try:
            if self._open is None:
                self._open = self._begin(now)
            _write_all(self._open.handle, b"".join(frames))
        except (OSError, ConfigError) as error:  # ConfigError: the folder is a file now.
            self._tell("failed", len(frames), str(error))
            self._cut()
            return
        self._size += sum(map(len, frames))
        self._records += len(frames)
        if self._size >= self._file_bytes:
            self.close()

    def _begin(self, now: float) -> _Open:
        start = f"requests-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{os.getpid()}"
        path = os.path.join(self._folder, f"{start}-{self._number}.tfrecord")
        while os.path.lexists(path):  # Of an earlier process with the same number.
            self._number += 1
            path = os.path.join(self._folder, f"{start}-{self._number}.tfrecord")
        self._number += 1
        with contextlib.ExitStack() as staging:
            temporary = staging.enter_context(staged.file(path, durable=True))
            handle = os.open(temporary, os.O_WRONLY | os.O_APPEND)
            self._size = self._records = 0
            return _Open(staging.pop_all(), handle, now + self._secs)

    def _cut(self) -> None:
        """Removes the part of a record at the end of the open file."""
        if self._open is None:
            return
        try:
            os.ftruncate(self._open.handle, self._size)
        except OSError as error:
            self._tell("failed", self._records, str(error))
            self._records = 0
            self.close()

    def _remove_oldest(self) -> None:
        if not self._keep_bytes:
            return
        try:
            names = filter(_LOG_FILE.fullmatch, file_systems.names_in(self._folder))
            paths = [os.path.join(self._folder, name) for name in names]
            sizes = {path: os.path.getsize(path) for path in paths}
            total, gone = sum(sizes.values()), 0
            for path in paths[:-1]:
                if total <= self._keep_bytes:
                    break
                os.remove(path)
                total -= sizes[path]
                gone += 1
        except OSError as error:  # Another process may have removed one.
            _log.warning("request log: the oldest files were not removed: %s", error)
            return
        if gone:
            self.removed += gone
            _log.warning(
                "request log: the oldest %d files of %s were removed, because all files together "
                "had more than --serving_log_keep_mib", gone, self._folder
            )  # fmt: skip


def recover(folder: str) -> int:
    """Names the files that killed servers have left; returns how many records they have.

    A record that was only half written is cut off. A file whose writer lives stays as it is.
    """
    count = 0
    for name in file_systems.names_in(folder):
        left = _LEFT.fullmatch(name)
        if left is None:
            continue
        path, own = os.path.join(folder, name), os.path.join(folder, left[1])
        try:
            count += _recovered(path, own)
        except (FileNotFoundError, locks.Taken):
            continue
        except OSError as error:  # Such as a file of another user.
            _log.warning("request log: %s stays as it is: %s", path, error)
    return count


def _recovered(path: str, own: str) -> int:
    with locks.held(path, make=False) as has_locks:
        if not has_locks:
            return 0
        with open(path, "rb") as file:
            records, size = _whole(file.read())
        if not records or os.path.lexists(own):
            os.remove(path)
            return 0
        os.truncate(path, size)
        staged.rename(path, own)
        return records


def _whole(data: bytes) -> tuple[int, int]:
    """How many whole records the data begins with, and their bytes."""
    count = end = 0
    while (length := framing.length_of(data[end : end + framing.HEADER])) is not None:
        begin = end + framing.HEADER
        after = begin + length + framing.FOOTER
        payload, checksum = data[begin : begin + length], data[begin + length : after]
        if len(data) < after or not framing.payload_is_right(payload, checksum):
            break
        count, end = count + 1, after
    return count, end


def _write_all(handle: int, data: bytes) -> None:
    """Writes all of the data. A single call may write less, such as when the disk gets full."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
