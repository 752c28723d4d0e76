"""Writes the file of one shard under a temporary name, computes its checksum, and renames it.

A note about each finished shard is written next to the temporary files, for the manifest and for a
conversion that is started again. A shard without a note is written again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import os
import zlib
from typing import Any, Optional

import numpy as np

from feature_specs.files import file_systems, staged

_CHUNK = 1 << 20
_NOTE = ".done"


@dataclasses.dataclass(frozen=True)
class Written:
    """A finished shard.

    Attributes:
      name: the name of its file.
      rows: the number of its records.
      bytes, crc32: the size and CRC-32 (as in zlib) of the stored file.
    """

    name: str
    rows: int
    bytes: int
    crc32: int


class _Counted:
    """A file that counts the bytes written to it and computes their CRC-32."""

    def __init__(self, path: str):
        self._path = path
        self.size = self.crc = 0
        try:
            self._file = file_systems.open_file(path, "wb")
        except OSError as error:
            raise file_systems.full_disk(error, path) from error

    def write(self, content: Any) -> int:
        try:
            self._file.write(content)
        except OSError as error:
            raise file_systems.full_disk(error, self._path) from error
        self.crc = zlib.crc32(content, self.crc)
        self.size += len(content)
        return len(content)

    def flush(self) -> None:
        """Does nothing: gzip calls it, but `close` flushes the file."""

    def close(self) -> None:
        try:
            file_systems.sync(self._file)
            self._file.close()
        except OSError as error:
            raise file_systems.full_disk(error, self._path) from error

    def discard(self) -> None:
        try:
            self._file.close()
            file_systems.remove(self._path)
        except OSError:
            pass  # The rest of the file has a temporary name, and the next start removes it.


class ShardFile:
    """Writes frames. `finish` gives the file its name; without `finish` the file is removed.

    with ShardFile(folder, "train-00000-of-00002.tfrecord", temporary) as shard:
        shard.write(frames, rows)
        written = shard.finish()
    """

    def __init__(self, folder: str, name: str, temporary: str, attempt: str = ""):
        """A shard that is first written to `temporary`, with a name that ends in `attempt`."""
        self.name = name
        self._folder = temporary
        self._path = os.path.join(folder, name)
        self._temporary = os.path.join(temporary, name + attempt)
        self._file = _Counted(self._temporary)
        self._packed: Any = None
        if name.endswith((".gz", ".gzip")):
            # Without a name and a time inside, the same records give the same bytes.
            self._packed = gzip.GzipFile("", "wb", 6, self._file, mtime=0)
        self._rows = 0
        self._finished: Optional[Written] = None

    def __enter__(self) -> ShardFile:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._finished is None:
            self._file.discard()

    def write(self, frames: np.ndarray, rows: int) -> None:
        """Adds the frames of `rows` rows."""
        content = np.ascontiguousarray(frames).data
        (self._packed or self._file).write(content)
        self._rows += rows

    def finish(self) -> Written:
        """Closes the file and gives it its name."""
        if self._packed is not None:
            self._packed.close()
        self._file.close()
        try:
            staged.rename(self._temporary, self._path)
        except OSError as error:
            raise file_systems.full_disk(error, self._path) from error
        self._finished = Written(self.name, self._rows, self._file.size, self._file.crc)
        note(self._folder, self._finished)
        return self._finished


def note(temporary: str, written: Written) -> None:
    """Writes a note about a finished shard."""
    path = os.path.join(temporary, written.name + _NOTE)
    content = json.dumps(dataclasses.asdict(written)).encode()
    try:
        staged.write(path, content, durable=True)
    except OSError as error:
        raise file_systems.full_disk(error, path) from error


def noted(temporary: str) -> dict[str, Written]:
    """The notes by the names of shards, without incomplete ones: those shards are written again."""
    found = {}
    for name in file_systems.names_in(temporary):
        if name.endswith(_NOTE):
            content = file_systems.read(os.path.join(temporary, name))
            with contextlib.suppress(ValueError, TypeError):
                found[name.removesuffix(_NOTE)] = Written(**json.loads(content or b"{}"))
    return found


def is_whole(folder: str, expected: Written) -> bool:
    """Whether the file of a shard exists and has not changed, byte for byte."""
    path = os.path.join(folder, expected.name)
    if not file_systems.exists(path) or file_systems.stamp(path)[0] != expected.bytes:
        return False
    crc = 0
    with file_systems.open_file(path, "rb") as file:
        while True:
            content = file.read(_CHUNK)
            if not content:
                return crc == expected.crc32
            crc = zlib.crc32(content, crc)
