"""The folder of a cache: names of entries, the size limit, and several runs at the same time.

An entry is one file, `<key>-<bytes>.rows`. It is written under another name and then renamed. An
entry whose size differs from the size in its name is not used. If room is needed, the entry that
was used longest ago is removed, and any entry after 30 days without use, but never an entry that a
living run uses. Each run holds a *lease*: a file with the keys that it uses, with a lock (`flock`).
The system releases the lock when the run ends, however it ends. The next run removes the files that
a killed run left behind.

    folder = CacheFolder("/ssd/rows", limit=20 * 2**30)
    path = folder.find(key)
    if path is None:
        unfinished = folder.unfinished(key)      # Write this file.
        path = folder.add(key, unfinished)
    folder.close()

A run finds the entries that the folder had when the run opened it, and its own. The folder must be
on a local disk, where `flock` and renaming are reliable. Several threads may use one CacheFolder.

Reading a week of data only to find that nothing has changed would take the time that the cache
saves. The digest of a local file is remembered together with its device, inode, size, and its
modification and change times in nanoseconds. Only the system sets the change time (`ctime`), when
the content, the name or the times change. A file that changed within the last seconds is hashed
each time, because clocks are too coarse to distinguish two changes. Remote files are also hashed
each time.

The name of a shard (`of_shard`) is a hash of everything that influences a transformed row: the
bytes of the source file (not its path or time), which of its records are read, the spec with its
vocabulary files, the code of the packages that read and transform, and TensorFlow's version. The
same rows are found when their file is moved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import pathlib
import re
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Optional

import tensorflow as tf

from feature_specs.files import locks, staged
from feature_specs.spec import FeatureSpec
from input_pipelines import own_code
from input_pipelines.record_files import file_bytes
from input_pipelines.record_files.sharding import Shard

_log = logging.getLogger("estimator_kit")

_ENTRY = re.compile(r"([0-9a-f]{64})-(\d+)\.rows")
_LEASE = re.compile(r"\.run-([0-9a-f]{32})")

# Seconds after which an entry that nobody used is removed: 30 days.
_KEPT = 30 * 24 * 3600


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
      evicted: the number of entries that this run has removed, to make room or because they are
        old.
    """

    def __init__(self, path: str, *, limit: int):
        self.path = pathlib.Path(path)
        self._limit = limit
        self.evicted = 0
        self._held: set[str] = set()
        self._threads = threading.Lock()
        self.path.mkdir(parents=True, exist_ok=True)
        self._run = uuid.uuid4().hex
        with self._alone():
            # Stays open, and locked, until `close` or the end of the process.
            self._lease = (self.path / f".run-{self._run}").open("w", encoding="ascii")
            locks.lock(self._lease.fileno())
            self._remove_old_entries(self._used())
            self._known = {entry.key: entry for entry in self._entries()}

    def find(self, key: str) -> Optional[str]:
        """The path of an entry, or None. The entry is not removed while this run lives."""
        entry = self._known.get(key)
        if entry is None:
            return None
        with self._alone():
            self._hold(key)
            try:
                size = entry.path.stat().st_size
            except FileNotFoundError:  # Another run has removed it.
                del self._known[key]
                return None
            if size == entry.size:
                os.utime(entry.path)
                return str(entry.path)
            _log.warning(
                "%s: the size of the file differs from the size in its name. It is removed and "
                "written again",
                entry.path,
            )
            del self._known[key]
            entry.path.unlink()
        return None

    def unfinished(self, key: str) -> str:
        """The path of a new file for an entry. If this run ends before `add`, it is removed."""
        with self._alone():
            self._hold(key)
        # Two source files of a run may be equal, and their rows may be written at the same time.
        return str(self.path / f".{self._run}-{key}-{uuid.uuid4().hex}")

    def add(self, key: str, unfinished: str) -> str:
        """Makes a complete file an entry, and returns its final path.

        Raises:
          CacheFull: the entry does not fit in addition to the entries that living runs use.
        """
        staged.sync(unfinished)
        size = os.stat(unfinished).st_size
        entry = _Entry(self.path / f"{key}-{size}.rows", key, size)
        with self._alone():
            if not entry.path.exists():  # Another run may have written it in the meantime.
                self._make_room(size)
            staged.rename(unfinished, str(entry.path))
            self._known[key] = entry
        return str(entry.path)

    def remove(self, path: str) -> None:
        """Removes an entry that turned out to be damaged."""
        # The whole folder may have been removed.
        with contextlib.suppress(FileNotFoundError), self._alone():
            self._known = {k: e for k, e in self._known.items() if str(e.path) != path}
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

    def _remove_old_entries(self, used: set[str]) -> None:
        oldest = time.time() - _KEPT
        for entry in self._entries():
            if entry.key not in used and entry.path.stat().st_mtime < oldest:
                entry.path.unlink()
                self.evicted += 1

    def _hold(self, key: str) -> None:
        """Protects an entry, existing or future, as long as this run lives."""
        if key not in self._held:
            self._held.add(key)
            self._lease.write(f"{key}\n")
            self._lease.flush()

    def _entries(self) -> list[_Entry]:
        matches = filter(None, map(_ENTRY.fullmatch, os.listdir(self.path)))
        return [_Entry(self.path / name[0], name[1], int(name[2])) for name in matches]

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


_CHUNK = 2**20
_LINE = re.compile(r"(\d+-\d+-\d+-\d+-\d+) ([0-9a-f]{64})\n")

# The digest of a file that changed within this time, in nanoseconds, is not remembered.
_YOUNG = 3 * 10**9

# If the file of digests has more lines than this, the older half is dropped.
_MOST = 100_000


def sha256_of(path: str) -> str:
    """SHA-256 of the bytes of a file, in hex."""
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class Digests:
    """Remembers digests in a file, one on each line.

    Args:
      path: the file. Several runs may use it at the same time.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._lock = threading.Lock()
        self._digests: dict[str, str] = {}
        if path.exists():
            with locks.held(str(path), wait=True):
                self._read()

    def _read(self) -> None:
        lines = _text(self._path).splitlines(True)
        # Incomplete lines are ignored.
        matches = filter(None, map(_LINE.fullmatch, lines))
        self._digests = {line[1]: line[2] for line in matches}
        if len(lines) > _MOST:
            # In place, because other runs that add lines have the lock of this file.
            kept = list(self._digests.items())[-_MOST // 2 :]
            self._path.write_text("".join(f"{k} {v}\n" for k, v in kept), encoding="ascii")

    def of(self, path: str) -> str:
        """SHA-256 of the bytes of a file, in hex."""
        before = _identity(path)
        if before is not None and before in self._digests:
            return self._digests[before]
        digest = sha256_of(path)
        if before is not None and before == _identity(path):
            self._remember(before, digest)
        return digest

    def _remember(self, identity: str, digest: str) -> None:
        changed = int(identity.rpartition("-")[2])
        if time.time_ns() - changed < _YOUNG:
            return
        with self._lock:
            self._digests[identity] = digest
            self._path.touch()
            file_lock = locks.held(str(self._path), wait=True)
            with file_lock, self._path.open("a", encoding="ascii") as file:
                file.write(f"{identity} {digest}\n")


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="ascii", errors="replace")


def _identity(path: str) -> Optional[str]:
    """A text that changes with every change of a local file; None for a remote file."""
    if "://" in path:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None  # Reading the file reports the error.
    times = f"{status.st_mtime_ns}-{status.st_ctime_ns}"
    return f"{status.st_dev}-{status.st_ino}-{status.st_size}-{times}"


def of_rows(spec: FeatureSpec) -> str:
    """A hash of what turns records into rows, in hex. Hashing the code takes about 1 ms, once."""
    parts = [spec.fingerprint_of_rows(), own_code.of_reading(), tf.version.VERSION]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def of_shard(
    rows: str, path: str, content: str, shard: Shard, left_out: Optional[Iterable[int]]
) -> str:
    """A hash of the rows of one file, in hex.

    Args:
      rows: the result of `of_rows`.
      path: the path of the file. Only its suffix is used, which decides how the file is read.
      content: the SHA-256 digest of its bytes.
      shard: which of its records are read.
      left_out: the records of a damaged file that are not read; None for an intact file.
    """
    skipped = None if left_out is None else sorted(left_out)
    gzip = file_bytes.is_gzip(path)
    text = json.dumps([rows, content, gzip, shard.count, shard.index, skipped])
    return hashlib.sha256(text.encode()).hexdigest()
