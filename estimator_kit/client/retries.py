"""Repeats requests that a server did not answer, until a deadline. Tests pass a clock."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .errors import ServingError

Answer = TypeVar("Answer")

# The codes of errors that are not the fault of the request: the server is unavailable or stops.
# Predictions change nothing, so it is safe to repeat them.
_PASSING = ("UNAVAILABLE",)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class Retries:
    """Calls with a deadline.

    Args:
      timeout_secs: the time for a call with all its tries, or for all calls in one `shared`.
      clock, sleep: functions like `time.monotonic` and `time.sleep`.
    """

    def __init__(
        self,
        timeout_secs: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
    ):
        if timeout_secs <= 0:
            raise ValueError(f"timeout_secs: got {timeout_secs!r}, expected more than 0")
        self._timeout = timeout_secs
        self._clock = clock
        self._sleep = sleep
        self._local = threading.local()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """The calls of this thread inside share one deadline, set by the outermost `shared`."""
        if getattr(self._local, "end", None) is not None:
            yield
            return
        self._local.end = self._clock() + self._timeout
        try:
            yield
        finally:
            self._local.end = None

    def call(self, attempt: Callable[[float], Answer]) -> Answer:
        """Calls `attempt` with the seconds that are left, and returns its answer.

        Raises:
          ServingError: the last error, if the time is over or another try cannot help.
        """
        end = getattr(self._local, "end", None)
        if end is None:
            end = self._clock() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                return attempt(max(end - self._clock(), 0.001))
            except ServingError as error:
                # A random time, so that many clients do not come back at once.
                wait = pause * random.uniform(0.5, 1.0)
                if error.code not in _PASSING or self._clock() + wait >= end:
                    raise
            self._sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
