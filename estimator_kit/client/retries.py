"""Tries again what a server did not take, until a deadline. Time is an argument, for tests."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .errors import ServingError

Answer = TypeVar("Answer")

# What a request that was not answered may say when nothing was wrong with it: the server is not
# there, or going. Predictions change nothing, so that one asked twice is harmless.
_PASSING = ("UNAVAILABLE",)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class Retries:
    """Calls with a deadline.

    Args:
      timeout_secs: for a call with all its tries, or for all calls in one `shared`.
      clock, sleep: as those of `time`.
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
        """Calls of this thread inside have one deadline: that of the first `shared` around them."""
        if getattr(self._local, "end", None) is not None:
            yield
            return
        self._local.end = self._clock() + self._timeout
        try:
            yield
        finally:
            self._local.end = None

    def call(self, attempt: Callable[[float], Answer]) -> Answer:
        """The answer of `attempt`, which is given the seconds that are left.

        Raises:
          ServingError: the last one, when the time is over or when trying again is of no use.
        """
        end = getattr(self._local, "end", None)
        if end is None:
            end = self._clock() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                return attempt(max(end - self._clock(), 0.001))
            except ServingError as error:
                # Each waits another while, so that many clients do not come back at once.
                wait = pause * random.uniform(0.5, 1.0)
                if error.code not in _PASSING or self._clock() + wait >= end:
                    raise
            self._sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
