"""SHA-256 of files, remembered for as long as a file is certainly the same.

Reading every byte of a week of data only to know that nothing has changed would cost what the cache
is to save. The digest of a local file is remembered with its device, inode, size and both times, to
the nanosecond. The second of them (`ctime`) is set by the system alone, at every change of content,
name or times. A file that changed within the last seconds is hashed each time, because clocks tick
too slowly to tell two changes apart; so is a remote one.
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

_CHUNK = 2**20
_LINE = re.compile(r"(\d+-\d+-\d+-\d+-\d+) ([0-9a-f]{64})\n")

# Nanoseconds for which a change is too young to be remembered.
_YOUNG = 3 * 10**9

# Lines that the file of digests may have before the older half is dropped.
_MOST = 100_000


class Digests:
    """The digests that are remembered in a file of one line each.

    Args:
      path: the file; runs beside each other may use one.
    """

    def __init__(self, path: pathlib.Path):
        self._path = path
        self._lock = threading.Lock()
        lines = _text(path).splitlines(True) if path.exists() else []
        # What is no whole line counts for nothing.
        found = filter(None, map(_LINE.fullmatch, lines))
        self._known: dict[str, str] = {line[1]: line[2] for line in found}
        if len(lines) > _MOST:
            kept = list(self._known.items())[-_MOST // 2 :]
            shorter = path.with_name(f"{path.name}.{os.getpid()}")
            shorter.write_text("".join(f"{k} {v}\n" for k, v in kept), encoding="ascii")
            os.replace(shorter, path)

    def of(self, path: str) -> str:
        """SHA-256 of the bytes of a file, in hex."""
        before = _identity(path)
        if before is not None and before in self._known:
            return self._known[before]
        digest = hashlib.sha256()
        with tf.io.gfile.GFile(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        found = digest.hexdigest()
        if before is not None and before == _identity(path):
            self._remember(before, found)
        return found

    def _remember(self, identity: str, digest: str) -> None:
        changed = int(identity.rpartition("-")[2])
        if time.time_ns() - changed < _YOUNG:
            return
        with self._lock:
            self._known[identity] = digest
            with self._path.open("a", encoding="ascii") as file:
                file.write(f"{identity} {digest}\n")


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="ascii", errors="replace")


def _identity(path: str) -> Optional[str]:
    """What changes with every change of a local file; None for a remote one."""
    if "://" in path:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None  # Reading it will say why.
    times = f"{found.st_mtime_ns}-{found.st_ctime_ns}"
    return f"{found.st_dev}-{found.st_ino}-{found.st_size}-{times}"
