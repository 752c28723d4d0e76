"""The folder of a cache: which shards are there, the size limit, and runs beside each other.

An entry is one file, `<key>-<bytes>.rows`; it is written under another name and renamed, and one
that is not as long as its name says counts for nothing. The entry that was used longest ago goes
when room is needed, but none that a living run has asked for: each run holds a *lease*, a file with
the keys that it uses, under a lock (`flock`) that the system lets go when the run ends, however it
ends. What a run that died left behind is removed by the next one.

    folder = CacheFolder("/ssd/rows", limit=20 * 2**30)
    path = folder.find(key) or folder.add(key, write)
    folder.close()

The folder has to be on a local disk, where `flock` and renaming do what they say. Several threads
may use one CacheFolder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import logging
import os
import pathlib
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Optional

_log = logging.getLogger("estimator_kit")

_ENTRY = re.compile(r"([0-9a-f]{64})-(\d+)\.rows")
_LEASE = re.compile(r"\.run-([0-9a-f]{32})")


class CacheFull(Exception):
    """Nothing can be removed, and there is no room for another entry."""


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One file of rows.

    Attributes:
      path: where it is.
      key: of its rows.
      size: the bytes that it has according to its name.
    """

    path: pathlib.Path
    key: str
    size: int


class CacheFolder:
    """One run's hold of a cache folder.

    Args:
      path: the folder; made if it is not there.
      limit: bytes that all entries may have together.

    Attributes:
      evicted: entries that this run has removed for room.
    """

    def __init__(self, path: str, *, limit: int):
        self.path = pathlib.Path(path)
        self._limit = limit
        self.evicted = 0
        self._threads = threading.Lock()
        self.path.mkdir(parents=True, exist_ok=True)
        self._run = uuid.uuid4().hex
        with self._alone():
            # Stays open, and locked, until `close` or the end of the process.
            self._lease = (self.path / f".run-{self._run}").open("w", encoding="ascii")
            fcntl.flock(self._lease, fcntl.LOCK_EX)
            self._remove_what_the_dead_left()

    def find(self, key: str) -> Optional[str]:
        """The path of an entry, which stays while this run lives; None where there is none."""
        with self._alone():
            self._hold(key)
            for entry in self._entries(key):
                if entry.path.stat().st_size == entry.size:
                    os.utime(entry.path)
                    return str(entry.path)
                _log.warning("%s is not as long as its name says, and is made anew", entry.path)
                entry.path.unlink()
        return None

    def add(self, key: str, write: Callable[[str], Any]) -> str:
        """Has an entry written by `write(path)`, and gives the path that it then has.

        Whatever `write` raises leaves nothing behind.

        Raises:
          CacheFull: it does not fit beside what living runs use.
        """
        with self._alone():
            self._hold(key)
        # Two files of a run may be equal, and be written by two threads.
        unfinished = self.path / f".{self._run}-{key}-{uuid.uuid4().hex}"
        try:
            write(str(unfinished))
            with open(unfinished, "rb") as file:
                os.fsync(file.fileno())
            size = unfinished.stat().st_size
            entry = self.path / f"{key}-{size}.rows"
            with self._alone():
                if not entry.exists():  # A run beside this one may have made it meanwhile.
                    self._make_room(size)
                os.replace(unfinished, entry)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                unfinished.unlink()
            raise
        return str(entry)

    def remove(self, path: str) -> None:
        """Removes an entry that turned out to be damaged."""
        # The whole folder may be gone.
        with contextlib.suppress(FileNotFoundError), self._alone():
            os.unlink(path)

    def close(self) -> None:
        """Lets go of the entries."""
        if not self._lease.closed:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._lease.name)
            self._lease.close()

    def _make_room(self, needed: int) -> None:
        used = self._used()
        entries = sorted(self._entries(), key=lambda entry: entry.path.stat().st_mtime_ns)
        total = sum(entry.size for entry in entries) + needed
        for entry in entries:
            if total <= self._limit:
                return
            if entry.key not in used:
                entry.path.unlink()
                total -= entry.size
                self.evicted += 1
        if total > self._limit:
            raise CacheFull(
                f"with the next file, the rows of this run and of those beside it are {total:,} "
                f"bytes, and {self._limit:,} are allowed"
            )

    def _hold(self, key: str) -> None:
        """Keeps an entry, there already or not yet, as long as this run lives."""
        self._lease.write(f"{key}\n")
        self._lease.flush()

    def _entries(self, key: str = "") -> list[_Entry]:
        names = (name for name in os.listdir(self.path) if name.startswith(key))
        found = filter(None, map(_ENTRY.fullmatch, names))
        return [_Entry(self.path / name[0], name[1], int(name[2])) for name in found]

    def _used(self) -> set[str]:
        """The keys of all leases; those of runs that ended are removed."""
        self._remove_what_the_dead_left()
        keys: set[str] = set()
        for name in os.listdir(self.path):
            if _LEASE.fullmatch(name):
                keys.update((self.path / name).read_text("ascii", "replace").split())
        return keys

    def _remove_what_the_dead_left(self) -> None:
        for name in os.listdir(self.path):
            lease = _LEASE.fullmatch(name)
            if lease is None or lease[1] == self._run:
                continue
            with open(self.path / name, encoding="ascii") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                for left in self.path.glob(f".{lease[1]}-*"):
                    left.unlink()
                os.unlink(self.path / name)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps out the threads of this run, and other runs."""
        with self._threads, open(self.path / ".lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
