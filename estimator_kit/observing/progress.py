"""Progress of work other than training: one line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Optional, TextIO


class Progress:
    """Prints the progress of a conversion, or similar work, as one line every few seconds.

    Args:
      every_secs: seconds between lines.
      what: the name of the things that are made.
      stream: where the lines go; by default standard error.
      clock: returns seconds that never decrease. Tests pass their own.
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
        """Adds `rows` that were read; `done` of `shards` shards are complete."""
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
