"""pyarrow: its import when a table is first read, its errors, and the files that it reads.

    with reading(path), contextlib.closing(open_text(path)) as source: ...    # errors name the file

Local files are opened directly, others through TensorFlow's file systems. TensorFlow is imported
only for remote files: without it, the processes of a conversion are small.

`LentStream` lends a Python stream to pyarrow, and takes it back.

    with LentStream(stream) as lent:
        lent.table = csv.open_csv(lent.feed(), ...)
        for batch in lent.table:

pyarrow reads ahead in a thread, also after an error, and closing a reader does not end this thread.
If the process ends meanwhile, the thread calls a Python that is shutting down, and the process
aborts with status 134 instead of its exit status. So the end of the `with` block waits until
pyarrow has dropped the stream. After that, the stream can be closed safely. Only `lent.table` may
refer to the reader.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any, Optional

from input_pipelines.errors import DataError, MissingPackageError


def arrow(part: str = "") -> Any:
    """The module `pyarrow`, or one of its parts: csv, json, parquet, compute.

    Raises:
      MissingPackageError: pyarrow is not installed.
    """
    name = f"pyarrow.{part}" if part else "pyarrow"
    # If a generator is abandoned, it ends during a garbage collection, which may run inside an
    # import. A second import could then wait forever. So a loaded module is not imported again,
    # unless another thread is still loading it.
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        return module
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            "reading tables needs the package 'pyarrow'; "
            "install it with: pip install 'estimator-kit[tables]'"
        ) from error


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns pyarrow's errors about a file into a DataError that names the file."""
    errors = (arrow().ArrowException, OSError, UnicodeDecodeError)
    try:
        yield
    except errors as error:
        raise DataError(f"{path}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The first line of an error, without a full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


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


# Seconds to wait for a read that has begun. A remote file may be slow.
_LONGEST = 60.0
_LOOK = 0.001


class _Feed:
    """What pyarrow gets instead of the stream. It exists as long as pyarrow may read."""

    closed = False

    def __init__(self, stream: Any):
        self._stream = stream
        self.ended = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Does nothing: the owner of the stream closes it."""

    def read(self, size: int) -> bytes:
        return b"" if self.ended else self._stream.read(size)


class LentStream:
    """A stream that pyarrow reads inside a `with` block.

    Attributes:
      table: pyarrow's reader. The end of the block drops it.
    """

    def __init__(self, stream: Any):
        self._stream = stream
        self._feed: Optional[weakref.ref[_Feed]] = None
        self.table: Any = None

    def feed(self) -> Any:
        """The file object for pyarrow. Keep no reference to it."""
        feed = _Feed(self._stream)
        self._feed = weakref.ref(feed)
        return feed

    def __enter__(self) -> LentStream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.table = None
        feed = self._feed() if self._feed is not None else None
        if feed is not None:
            feed.ended = True
            del feed
        end = time.monotonic() + _LONGEST
        while self._feed is not None and self._feed() is not None and time.monotonic() < end:
            time.sleep(_LOOK)
