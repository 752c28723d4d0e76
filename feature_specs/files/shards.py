"""Shards: files that workers write in pieces, each with a note when it is complete.

    with ShardFile(folder, "train-00000-of-00002.tfrecord", temporary) as shard:
        shard.write(frames, rows)
    shard.written    # Written(name="train-00000-of-00002.tfrecord", rows=800, bytes=..., crc32=...)

The notes are in the folder of temporary files, for the manifest and for a job that is started
again; see `jobs`. A shard without a note is written again.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from typing import Any

from typing_extensions import Self

from feature_specs.files import documents, file_systems, staged

_CHUNK = 1 << 20
_NOTE = ".done"


class Written(documents.Document):
    """A note: a finished shard.

    Attributes:
      name: the name of its file.
      rows: the number of its records.
      bytes, crc32: the size and CRC-32 (as in zlib) of the stored file.
    """

    name: str
    rows: int
    bytes: int
    crc32: int

    def note(self, temporary: str) -> None:
        """Writes the note."""
        path = os.path.join(temporary, self.name + _NOTE)
        with file_systems.writing(path):
            self.save(path, durable=True)

    def is_whole(self, folder: str) -> bool:
        """Whether the file exists and has not changed, byte for byte."""
        path = os.path.join(folder, self.name)
        if not file_systems.exists(path) or file_systems.stamp(path)[0] != self.bytes:
            return False
        crc = 0
        with file_systems.open_file(path, "rb") as file:
            while content := file.read(_CHUNK):
                crc = zlib.crc32(content, crc)
        return crc == self.crc32


def notes_in(temporary: str) -> list[Written]:
    """All notes."""
    names = [name for name in file_systems.names_in(temporary) if name.endswith(_NOTE)]
    notes = (Written.load(os.path.join(temporary, name)) for name in names)
    return [note for note in notes if note is not None]


class WholeFile:
    """A file that is written in pieces and appears at the end of its block, with its size and CRC.

    After an error in the block nothing is left; see `staged`. For errors of writing,
    see `file_systems.writing`.
    """

    def __init__(self, path: str, temporary: str):
        """A file that is first written in the folder `temporary`."""
        self.path, self._temporary = path, temporary
        self.size = self.crc32 = 0
        self._discards = False

    def __enter__(self) -> Self:
        with file_systems.writing(self.path), contextlib.ExitStack() as stack:
            staging = staged.file(self.path, within=self._temporary, durable=True)
            place = stack.enter_context(staging)
            self._file = stack.enter_context(file_systems.open_file(place, "wb"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            with file_systems.writing(self.path):
                self._stack.close()
            return
        self._discards = True
        with contextlib.suppress(OSError):  # The first error is the one to show.
            self._stack.__exit__(*error)

    def write(self, content: Any) -> int:
        """Adds the bytes of a buffer; drops what gzip still writes after an error."""
        if self._discards:
            return len(content)
        with file_systems.writing(self.path):
            self._file.write(content)
        self.crc32 = zlib.crc32(content, self.crc32)
        self.size += len(content)
        return len(content)

    def flush(self) -> None:
        """Does nothing: gzip calls it, but the end of the block flushes the file."""


class ShardFile:
    """Writes a shard, and its note. It is compressed if its name ends in .gz or .gzip.

    Attributes:
      written: after the block, the finished shard.
    """

    written: Written

    def __init__(self, folder: str, name: str, temporary: str):
        """A shard that is first written in the folder `temporary`."""
        self._name, self._temporary = name, temporary
        self._file = WholeFile(os.path.join(folder, name), temporary)
        self._rows = 0

    def __enter__(self) -> Self:
        self._target: Any = self._file.__enter__()
        if self._name.endswith((".gz", ".gzip")):
            # Without a name and a time inside, the same records give the same bytes.
            self._target = gzip.GzipFile("", "wb", 6, self._target, mtime=0)
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            self._file.__exit__(*error)
            self._close()
            return
        with contextlib.ExitStack() as stack:
            stack.push(self._file)
            self._close()
        size, crc32 = self._file.size, self._file.crc32
        self.written = Written(name=self._name, rows=self._rows, bytes=size, crc32=crc32)
        self.written.note(self._temporary)

    def _close(self) -> None:
        """Writes the end of a compressed file."""
        if self._target is not self._file:
            self._target.close()

    def write(self, frames: Any, rows: int) -> None:
        """Adds the frames of `rows` rows, a buffer of bytes."""
        self._target.write(frames)
        self._rows += rows
