"""Files as pyarrow reads them: local ones by itself, others through TensorFlow's file systems.

TensorFlow is imported for these alone: the processes of a conversion are small without it.
"""

from __future__ import annotations

import io
import os
from typing import Any

from input_pipelines.prepare.tables.library import arrow


class _Remote(io.RawIOBase):
    """A file of any file system of TensorFlow's, as a Python file for reading."""

    def __init__(self, path: str):
        import tensorflow as tf

        super().__init__()
        self._file = tf.io.gfile.GFile(path, "rb")
        self._size = int(tf.io.gfile.stat(path).length)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self._size}[whence]
        self._file.seek(start + offset)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def open_file(path: str) -> Any:
    """A file for reading at any place; the caller closes it."""
    if "://" in path:
        return arrow().PythonFile(io.BufferedReader(_Remote(path)), mode="r")
    return arrow().OSFile(path, "rb")


def open_text(path: str) -> Any:
    """A file for reading from its start, unpacked when its name ends in .gz."""
    file = open_file(path)
    if path.lower().endswith(".gz"):
        return arrow().CompressedInputStream(file, "gzip")
    return file


def size_of(path: str) -> int:
    """Bytes of a file, as it is stored."""
    if "://" not in path:
        return os.path.getsize(path)
    import tensorflow as tf

    return int(tf.io.gfile.stat(path).length)
