"""One shard's file: written under a temporary name, counted and summed as it is, then renamed.

What is known of a finished shard is noted beside the temporary files, for the manifest and for a
conversion that is started again; a shard without its note is written once more.
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

from input_pipelines.prepare.convert import places

_CHUNK = 1 << 20
_NOTE = ".done"


@dataclasses.dataclass(frozen=True)
class Written:
    """A finished shard.

    Attributes:
      name: of its file.
      rows: records in it.
      bytes, crc32: of the file as it is stored; CRC-32 as zlib has it.
    """

    name: str
    rows: int
    bytes: int
    crc32: int


class _Counted:
    """A file that counts and sums what is written to it."""

    def __init__(self, path: str):
        self._path = path
        self.size = self.crc = 0
        try:
            self._file = places.open_file(path, "wb")
        except OSError as error:
            raise places.full_disk(error, path) from error

    def write(self, content: Any) -> int:
        try:
            self._file.write(content)
        except OSError as error:
            raise places.full_disk(error, self._path) from error
        self.crc = zlib.crc32(content, self.crc)
        self.size += len(content)
        return len(content)

    def flush(self) -> None:
        """Nothing: gzip asks for it, and `close` does it."""

    def close(self) -> None:
        try:
            places.sync(self._file)
            self._file.close()
        except OSError as error:
            raise places.full_disk(error, self._path) from error

    def discard(self) -> None:
        try:
            self._file.close()
            places.remove(self._path)
        except OSError:
            pass  # What is left has a temporary name, and the next start removes it.


class ShardFile:
    """Writes frames; `finish` gives the file its name, and leaving early leaves none.

    with ShardFile(folder, "train-00000-of-00002.tfrecord", temporary) as shard:
        shard.write(frames, rows)
        written = shard.finish()
    """

    def __init__(self, folder: str, name: str, temporary: str, attempt: str = ""):
        """A shard that is written in `temporary`, under a name that ends in `attempt`."""
        self.name = name
        self._attempt = attempt
        self._folder = temporary
        self._path = os.path.join(folder, name)
        self._temporary = os.path.join(temporary, name + attempt)
        self._file = _Counted(self._temporary)
        self._packed: Any = None
        if name.endswith((".gz", ".gzip")):
            # No name and no time inside, so that the same records are the same bytes.
            self._packed = gzip.GzipFile("", "wb", 6, self._file, mtime=0)
        self._rows = 0
        self._finished: Optional[Written] = None

    def __enter__(self) -> ShardFile:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._finished is None:
            self._file.discard()

    def write(self, frames: np.ndarray, rows: int) -> None:
        """Adds the frames of so many rows."""
        content = np.ascontiguousarray(frames).data
        (self._packed or self._file).write(content)
        self._rows += rows

    def finish(self) -> Written:
        """Closes the file and gives it its name."""
        if self._packed is not None:
            self._packed.close()
        self._file.close()
        try:
            places.rename(self._temporary, self._path)
        except OSError as error:
            raise places.full_disk(error, self._path) from error
        self._finished = Written(self.name, self._rows, self._file.size, self._file.crc)
        note(self._folder, self._finished, self._attempt)
        return self._finished


def note(temporary: str, written: Written, attempt: str = "") -> None:
    """Notes what a finished shard is."""
    path = os.path.join(temporary, written.name + _NOTE)
    content = json.dumps(dataclasses.asdict(written)).encode()
    try:
        places.write(path, content, path + attempt + ".tmp")
    except OSError as error:
        raise places.full_disk(error, path) from error


def noted(temporary: str) -> dict[str, Written]:
    """What was noted, by the names of shards; a torn note is none: its shard is written anew."""
    found = {}
    for name in places.names_in(temporary):
        if name.endswith(_NOTE):
            content = places.read(os.path.join(temporary, name))
            with contextlib.suppress(ValueError, TypeError):
                found[name.removesuffix(_NOTE)] = Written(**json.loads(content or b"{}"))
    return found


def is_whole(folder: str, expected: Written) -> bool:
    """Whether a shard is in its place as it was written, byte for byte."""
    path = os.path.join(folder, expected.name)
    if not places.exists(path) or places.stamp(path)[0] != expected.bytes:
        return False
    crc = 0
    with places.open_file(path, "rb") as file:
        while True:
            content = file.read(_CHUNK)
            if not content:
                return crc == expected.crc32
            crc = zlib.crc32(content, crc)
