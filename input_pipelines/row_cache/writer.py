"""Writes shards of rows into a cache folder in a separate thread, during the training.

    writer = ShardWriter(folder, to_records, warn)
    reading = writer.begin(key, source, still_same)
    writer.put(reading, number, block)          # Block by block, in any order.
    writer.end(reading, number)                 # With this many blocks, it becomes an entry.
    writer.close()                              # Writes what is queued.

Writing never stops or delays a training. If the disk is full, the folder has no room, or blocks
come faster than the disk takes them, the writer says so once, writes nothing more, and keeps what
is complete. The methods may be called from any thread, and raise nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from input_pipelines.row_cache.folder import CacheFolder, CacheFull

# What `begin` gives if nothing can be written, and what `put` ignores.
NOT_WRITTEN = -1

# The most bytes that wait to be written.
_MOST_WAITING = 128 * 2**20

Block = Sequence[np.ndarray]


@dataclasses.dataclass
class _Shard:
    """A shard that is being written.

    Attributes:
      key: the key of its rows.
      source: the file of which these are the rows.
      is_same: whether the source file still has the content that the key stands for.
      path: its unfinished file.
      file: the writer of this file.
      early: blocks whose turn has not come, by number.
      next: the number of the block whose turn it is.
      end: the number of its blocks, as soon as it is known.
      ends: whether all of it is written or queued.
      rows, size: the number of rows and bytes so far.
    """

    key: str
    source: str
    is_same: Callable[[], bool]
    path: str
    file: Any
    early: dict[int, list[bytes]] = dataclasses.field(default_factory=dict)
    next: int = 0
    end: Optional[int] = None
    ends: bool = False
    rows: int = 0
    size: int = 0


class ShardWriter:
    """One thread that writes shards.

    Args:
      folder: the folder of the entries.
      limit: the most bytes of unfinished files together.
      to_records: the records of a block.
      added: called with the path, the source file and the number of rows of each new entry.
      warn: called with a sentence that says why no more rows are stored, at most once.
    """

    def __init__(
        self,
        folder: CacheFolder,
        *,
        limit: int,
        to_records: Callable[[Block], list[bytes]],
        added: Callable[[str, str, int], None],
        warn: Callable[[str], None],
    ):
        self._folder, self._limit = folder, limit
        self._to_records, self._added, self._warn = to_records, added, warn
        self._shards: dict[int, _Shard] = {}
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._work: queue.Queue[Optional[tuple[int, int, Optional[Block]]]] = queue.Queue()
        self._waiting = 0
        self._stopped = False
        self._thread: Optional[threading.Thread] = None

    def begin(self, key: str, source: str, is_same: Callable[[], bool]) -> int:
        """The number of a new shard, for `put` and `end`."""
        with self._lock:
            if self._stopped:
                return NOT_WRITTEN
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            try:
                path = self._folder.unfinished(key)
                shard = _Shard(key, source, is_same, path, tf.io.TFRecordWriter(path))
            except (OSError, tf.errors.OpError) as error:
                self._stop(_problem(error))
                return NOT_WRITTEN
            number = next(self._numbers)
            self._shards[number] = shard
            return number

    def put(self, shard: int, number: int, block: Block) -> None:
        """Queues a block of rows: the tensors of a `RowLayout`. It may not be changed later."""
        if shard == NOT_WRITTEN or self._stopped:
            return
        size = _size(block)
        with self._lock:
            self._waiting += size
            if self._waiting - size > _MOST_WAITING:
                self._stop("the disk is slower than reading the files")
                return
        self._work.put((shard, number, block))

    def end(self, shard: int, number: int) -> None:
        """Queues the end of a shard of `number` blocks."""
        with self._lock:
            if shard not in self._shards:
                return
            self._shards[shard].ends = True
        self._work.put((shard, number, None))

    def wait(self, key: str) -> None:
        """Waits for a shard of this key, if all of its blocks are queued."""
        with self._changed:
            self._changed.wait_for(
                lambda: not any(each.ends and each.key == key for each in self._shards.values())
            )

    def close(self) -> None:
        """Writes what is queued, and removes what is unfinished. May be called twice."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
            self._thread = None
        with self._lock:
            self._stopped = True
            for number in list(self._shards):
                self._drop(number)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            number, place, block = work
            if block is not None:
                with self._lock:
                    self._waiting -= _size(block)
            if self._stopped or number not in self._shards:
                continue
            try:
                self._take(number, place, block)
            except CacheFull as error:
                self._stop_with(f"{error}. Allow more (--input_cache_gib)")
            except (OSError, tf.errors.OpError) as error:
                self._stop_with(_problem(error))

    def _take(self, number: int, place: int, block: Optional[Block]) -> None:
        shard = self._shards[number]
        if block is None:
            shard.end = place
        else:
            shard.early[place] = self._to_records(block)
            shard.rows += len(block[0])
        while shard.next in shard.early:
            for record in shard.early.pop(shard.next):
                shard.file.write(record)
                shard.size += len(record)
            shard.next += 1
        if sum(shard.size for shard in self._shards.values()) > self._limit:
            raise CacheFull(
                f"the unfinished files of this run have more bytes than the limit, {self._limit:,}"
            )
        if shard.next == shard.end:
            self._finish(number, shard)

    def _finish(self, number: int, shard: _Shard) -> None:
        shard.file.close()
        if shard.is_same():
            self._added(self._folder.add(shard.key, shard.path), shard.source, shard.rows)
        self._drop(number)

    def _drop(self, number: int) -> None:
        with self._changed:
            shard = self._shards.pop(number)
            self._changed.notify_all()
        with contextlib.suppress(OSError, tf.errors.OpError):
            shard.file.close()
        with contextlib.suppress(OSError):
            os.unlink(shard.path)  # It has another name if it is complete.

    def _stop_with(self, problem: str) -> None:
        with self._lock:
            self._stop(problem)

    def _stop(self, problem: str) -> None:
        if not self._stopped:
            self._stopped = True
            self._warn(problem)
        # Frees the disk now, except what the thread is writing.
        if self._thread is None or threading.current_thread() is self._thread:
            for number in list(self._shards):
                self._drop(number)


def _size(block: Block) -> int:
    # An object has 8 bytes and a text; a guess is enough.
    return sum(array.nbytes * (8 if array.dtype == object else 1) for array in block)


def _problem(error: Exception) -> str:
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return "the disk is full"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return str(error)
