"""Progress of work that is not training: a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Optional, TextIO


class Progress:
    """Shows how far a conversion, or work like it, is, on a line of its own every few seconds.

    Args:
      every_secs: seconds between lines.
      what: that are made, as they are called.
      stream: where they go, standard error by default.
      clock: seconds that only grow; an argument so that tests need not wait.
    """

    def __init__(
        self,
        *,
        every_secs: float = 10.0,
        what: str = "shards",
        stream: Optional[TextIO] = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._every = every_secs
        self._what = what
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._started = self._shown = clock()
        self._rows = 0

    def __call__(self, rows: int, done: int, shards: int) -> None:
        """Adds rows that were read, when so many of the shards are there."""
        self._rows += rows
        now = self._clock()
        if now - self._shown < self._every:
            return
        self._shown = now
        rate = self._rows / (now - self._started)
        print(
            f"{done:,} of {shards:,} {self._what}, {self._rows:,} rows read, {rate:,.0f} rows/s",
            file=self._stream,
            flush=True,
        )
