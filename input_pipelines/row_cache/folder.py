"""The folder of a cache: its entries, the size limit, and several runs at the same time.

An entry is one file, `<key>-<bytes>.rows`. It is written under another name and then renamed. An
entry whose size differs from the size in its name is not used. If room is needed, the entry that
was used longest ago is removed, but never an entry that a living run uses. Each run holds a
*lease*: a file with the keys that it uses, with a lock (`flock`). The system releases the lock when
the run ends, however it ends. The next run removes the files that a killed run left behind.

    folder = CacheFolder("/ssd/rows", limit=20 * 2**30)
    path = folder.find(key) or folder.add(key, write)
    folder.close()

The folder must be on a local disk, where `flock` and renaming are reliable. Several threads may use
one CacheFolder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Optional

from feature_specs.files import locks, staged

_log = logging.getLogger("estimator_kit")

_ENTRY = re.compile(r"([0-9a-f]{64})-(\d+)\.rows")
_LEASE = re.compile(r"\.run-([0-9a-f]{32})")


class CacheFull(Exception):
    """The folder has no room for another entry, and no entry can be removed."""


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One file of rows.

    Attributes:
      path: the path of the file.
      key: the key of its rows.
      size: its size in bytes according to its name.
    """

    path: pathlib.Path
    key: str
    size: int


class CacheFolder:
    """One run's access to a cache folder.

    Args:
      path: the folder; created if it does not exist.
      limit: the most bytes of all entries together.

    Attributes:
      evicted: the number of entries that this run has removed to make room.
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
            locks.lock(self._lease.fileno())
            self._remove_what_the_dead_left()

    def find(self, key: str) -> Optional[str]:
        """The path of an entry, or None. The entry is not removed while this run lives."""
        with self._alone():
            self._hold(key)
            for entry in self._entries(key):
                if entry.path.stat().st_size == entry.size:
                    os.utime(entry.path)
                    return str(entry.path)
                _log.warning(
                    "%s: the size of the file differs from the size in its name. It is removed and "
                    "written again",
                    entry.path,
                )
                entry.path.unlink()
        return None

    def add(self, key: str, write: Callable[[str], Any]) -> str:
        """Calls `write(path)` to write an entry, and returns the final path of the entry.

        If `write` raises an error, the unfinished file is removed.

        Raises:
          CacheFull: the entry does not fit in addition to the entries that living runs use.
        """
        with self._alone():
            self._hold(key)
        # Two source files of a run may be equal, and two threads may write their rows.
        unfinished = self.path / f".{self._run}-{key}-{uuid.uuid4().hex}"
        try:
            write(str(unfinished))
            staged.sync(str(unfinished))
            size = unfinished.stat().st_size
            entry = self.path / f"{key}-{size}.rows"
            with self._alone():
                if not entry.exists():  # Another run may have written it in the meantime.
                    self._make_room(size)
                staged.rename(str(unfinished), str(entry))
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                unfinished.unlink()
            raise
        return str(entry)

    def remove(self, path: str) -> None:
        """Removes an entry that turned out to be damaged."""
        # The whole folder may have been removed.
        with contextlib.suppress(FileNotFoundError), self._alone():
            os.unlink(path)

    def close(self) -> None:
        """Allows other runs to remove the entries that this run used."""
        if not self._lease.closed:
            # Another run may be reading the leases. The whole folder may have been removed.
            with contextlib.suppress(FileNotFoundError), self._alone():
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
                f"with the next file, the rows of all current runs need {total:,} bytes, but the "
                f"limit is {self._limit:,}"
            )

    def _hold(self, key: str) -> None:
        """Protects an entry, existing or future, as long as this run lives."""
        self._lease.write(f"{key}\n")
        self._lease.flush()

    def _entries(self, key: str = "") -> list[_Entry]:
        names = (name for name in os.listdir(self.path) if name.startswith(key))
        found = filter(None, map(_ENTRY.fullmatch, names))
        return [_Entry(self.path / name[0], name[1], int(name[2])) for name in found]

    def _used(self) -> set[str]:
        """The keys of all leases. Removes the leases of runs that have ended."""
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
            with contextlib.suppress(locks.Taken), locks.held(str(self.path / name)):
                for left in self.path.glob(f".{lease[1]}-*"):
                    left.unlink()
                os.unlink(self.path / name)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Locks the folder against other threads of this run and against other runs."""
        (self.path / ".lock").touch()
        with self._threads, locks.held(str(self.path / ".lock"), wait=True):
            yield
