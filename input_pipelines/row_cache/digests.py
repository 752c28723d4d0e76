"""SHA-256 digests of files, remembered as long as a file is certainly the same.

Reading a week of data only to find that nothing has changed would take the time that the cache
saves. The digest of a local file is remembered together with its device, inode, size, and its
modification and change times in nanoseconds. Only the system sets the change time (`ctime`), when
the content, the name or the times change. A file that changed within the last seconds is hashed
each time, because clocks are too coarse to distinguish two changes. Remote files are also hashed
each time.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import threading
import time
from typing import Optional

import tensorflow as tf

from feature_specs.files import locks

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
        self._known: dict[str, str] = {}
        if path.exists():
            with locks.held(str(path), wait=True):
                self._read()

    def _read(self) -> None:
        lines = _text(self._path).splitlines(True)
        # Incomplete lines are ignored.
        found = filter(None, map(_LINE.fullmatch, lines))
        self._known = {line[1]: line[2] for line in found}
        if len(lines) > _MOST:
            # In place, because other runs that add lines have the lock of this file.
            kept = list(self._known.items())[-_MOST // 2 :]
            self._path.write_text("".join(f"{k} {v}\n" for k, v in kept), encoding="ascii")

    def of(self, path: str) -> str:
        """SHA-256 of the bytes of a file, in hex."""
        before = _identity(path)
        if before is not None and before in self._known:
            return self._known[before]
        found = sha256_of(path)
        if before is not None and before == _identity(path):
            self._remember(before, found)
        return found

    def _remember(self, identity: str, digest: str) -> None:
        changed = int(identity.rpartition("-")[2])
        if time.time_ns() - changed < _YOUNG:
            return
        with self._lock:
            self._known[identity] = digest
            self._path.touch()
            held = locks.held(str(self._path), wait=True)
            with held, self._path.open("a", encoding="ascii") as file:
                file.write(f"{identity} {digest}\n")


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="ascii", errors="replace")


def _identity(path: str) -> Optional[str]:
    """A text that changes with every change of a local file; None for a remote file."""
    if "://" in path:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None  # Reading the file reports the error.
    times = f"{found.st_mtime_ns}-{found.st_ctime_ns}"
    return f"{found.st_dev}-{found.st_ino}-{found.st_size}-{times}"
