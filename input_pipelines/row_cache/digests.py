"""SHA-256 digests of files, and the name of a cached shard, which is made of them.

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

import hashlib
import json
import os
import pathlib
import re
import threading
import time
from collections.abc import Iterable
from typing import Optional

import tensorflow as tf

from feature_specs.files import locks
from feature_specs.spec import FeatureSpec
from input_pipelines import own_code
from input_pipelines.record_files import file_bytes
from input_pipelines.record_files.sharding import Shard

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
