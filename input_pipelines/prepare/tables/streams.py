"""Opens files for pyarrow: local files directly, others through TensorFlow's file systems.

TensorFlow is imported only for remote files. Without it, the processes of a conversion are small.
"""

from __future__ import annotations

import io
import os
from typing import Any

from input_pipelines.prepare.tables.library import arrow


class _Remote(io.RawIOBase):
    """A file in one of TensorFlow's file systems, as a Python file for reading."""

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
    """Opens a file for reading at any place. The caller closes it."""
    if "://" in path:
        return arrow().PythonFile(io.BufferedReader(_Remote(path)), mode="r")
    return arrow().OSFile(path, "rb")


def open_text(path: str) -> Any:
    """Opens a file for reading from its start. Unpacks it if its name ends in .gz."""
    file = open_file(path)
    if path.lower().endswith(".gz"):
        return arrow().CompressedInputStream(file, "gzip")
    return file


def size_of(path: str) -> int:
    """The size of a stored file in bytes."""
    if "://" not in path:
        return os.path.getsize(path)
    import tensorflow as tf

    return int(tf.io.gfile.stat(path).length)
