"""Writes shards of rows into a cache folder in a separate thread, during the training.

    writer = ShardWriter(folder, limit=limit, to_records=to_records, added=added, warn=warn)
    reading = writer.begin(key, source, is_same)
    writer.put(reading, number, block)          # Block by block, in any order.
    writer.end(reading, number)                 # With this many blocks, it becomes an entry.
    writer.close()                              # Writes what is queued.

A training never fails because rows cannot be stored. If the disk is full, the folder has no room,
or blocks come faster than the disk takes them, the writer says so once, writes nothing more, and
keeps what is complete. The methods may be called from any thread, and raise nothing. Only the
writer's thread touches files and shards; other threads queue its work.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import functools
import itertools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from input_pipelines.record_files.framing import LARGEST_RECORD
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
      path, file: its unfinished file and the writer of it, from the first block on.
      early: blocks whose turn has not come, by number.
      next: the number of the block whose turn it is.
      end: the number of its blocks, as soon as it is known.
      rows, size: the number of rows and bytes so far.
    """

    key: str
    source: str
    is_same: Callable[[], bool]
    path: str = ""
    file: Any = None
    early: dict[int, list[bytes]] = dataclasses.field(default_factory=dict)
    next: int = 0
    end: Optional[int] = None
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
        self._numbers = itertools.count()
        self._work: queue.Queue[Optional[Callable[[], None]]] = queue.Queue()
        self._shards: dict[int, _Shard] = {}  # Only for the thread.
        # What all threads use, with the lock of `_changed`.
        self._changed = threading.Condition()
        self._thread: Optional[threading.Thread] = None
        self._keys: dict[int, str] = {}
        self._ending: collections.Counter[str] = collections.Counter()
        self._waiting = 0
        self._stopped = False

    def begin(self, key: str, source: str, is_same: Callable[[], bool]) -> int:
        """The number of a new shard, for `put` and `end`. It replaces an unfinished one."""
        with self._changed:
            if self._stopped:
                return NOT_WRITTEN
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            number = next(self._numbers)
            self._keys[number] = key
        self._work.put(functools.partial(self._begin, number, _Shard(key, source, is_same)))
        return number

    def put(self, shard: int, number: int, block: Block) -> None:
        """Queues a block of rows: the tensors of a `RowLayout`. It may not be changed later."""
        size = _size(block)
        with self._changed:
            if shard == NOT_WRITTEN or self._stopped:
                return
            if size > LARGEST_RECORD:
                self._stop(f"{len(block[0]):,} rows have {size:,} bytes, which is too much")
                return
            if self._waiting > _MOST_WAITING:
                self._stop("the disk is slower than reading the files")
                return
            self._waiting += size
        self._work.put(functools.partial(self._write, shard, number, block, size))

    def end(self, shard: int, number: int) -> None:
        """Queues the end of a shard of `number` blocks."""
        with self._changed:
            if shard == NOT_WRITTEN or self._stopped:
                return
            self._ending[self._keys[shard]] += 1
        self._work.put(functools.partial(self._end, shard, number))

    def wait(self, key: str) -> None:
        """Waits until the shards of this key whose end is queued are entries."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._ending[key])

    def close(self) -> None:
        """Writes what is queued, and removes what is unfinished. May be called twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()
        with self._changed:
            self._stopped = True

    def _stop(self, problem: str) -> None:
        """Ends writing. The thread then drops its shards."""
        with self._changed:
            if not self._stopped:
                self._stopped = True
                self._warn(problem)
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while (work := self._work.get()) is not None:
                if self._stopped:
                    self._drop_all()
                    continue
                try:
                    work()
                except CacheFull as error:
                    self._stop(f"{error}. Allow more (--input_cache_gib)")
                except (OSError, tf.errors.OpError) as error:
                    self._stop(_problem(error))
        finally:  # Nobody may wait for a thread that has ended.
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            self._drop_all()

    def _begin(self, number: int, shard: _Shard) -> None:
        # The reading of an older one with the same rows has stopped in the middle, or is as far.
        for other in [n for n, each in self._shards.items() if each.key == shard.key]:
            self._drop(other)
        self._shards[number] = shard

    def _write(self, number: int, place: int, block: Block, size: int) -> None:
        with self._changed:
            self._waiting -= size
        shard = self._shards.get(number)
        if shard is None:
            return
        if shard.file is None:
            shard.path = self._folder.unfinished(shard.key)
            shard.file = tf.io.TFRecordWriter(shard.path)
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
        self._finish(number, shard)

    def _end(self, number: int, blocks: int) -> None:
        shard = self._shards.get(number)
        if shard is None:
            self._is_ended(self._keys[number])
            return
        shard.end = blocks
        self._finish(number, shard)

    def _finish(self, number: int, shard: _Shard) -> None:
        if shard.next != shard.end:
            return
        shard.file.close()
        if shard.is_same():
            self._added(self._folder.add(shard.key, shard.path), shard.source, shard.rows)
        self._drop(number)

    def _drop(self, number: int) -> None:
        shard = self._shards.pop(number)
        if shard.file is not None:
            with contextlib.suppress(OSError, tf.errors.OpError):
                shard.file.close()
            with contextlib.suppress(OSError):
                os.unlink(shard.path)  # It has another name if it is complete.
        if shard.end is not None:
            self._is_ended(shard.key)

    def _drop_all(self) -> None:
        for number in list(self._shards):
            self._drop(number)

    def _is_ended(self, key: str) -> None:
        with self._changed:
            self._ending[key] -= 1
            self._changed.notify_all()


def _size(block: Block) -> int:
    # An object has 8 bytes and a text; a guess is enough.
    return sum(array.nbytes * (8 if array.dtype == object else 1) for array in block)


def _problem(error: Exception) -> str:
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return "the disk is full"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return str(error)
