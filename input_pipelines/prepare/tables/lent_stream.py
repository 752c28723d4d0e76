"""Lends a Python stream to pyarrow, and takes it back.

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

import time
import weakref
from typing import Any, Optional

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
