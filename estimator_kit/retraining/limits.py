"""Ends a stage in time: SIGTERM, and limits in seconds.

    with stoppable() as limits:
        with limits.stage("train", 7200):
            ...

Outside training, SIGTERM raises `Stopped` where the main thread is: every stage leaves whole files
or none, so that nothing has to be finished first. Training has a handler of its own while it runs,
which saves a checkpoint. A limit is such a SIGTERM that the process sends to itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any, Optional

from estimator_kit.errors import Stopped, TimedOut


class Limits:
    """Knows which stage is at work, and whether its time is up."""

    def __init__(self) -> None:
        self._stage = "start"
        self._seconds: Optional[float] = None
        self._over = False

    @contextlib.contextmanager
    def stage(self, name: str, seconds: Optional[float]) -> Iterator[None]:
        """A stage with its limit.

        Raises:
          TimedOut: in the place of Stopped, where the limit was the reason.
        """
        self._stage, self._seconds, self._over = name, seconds, False
        timer = threading.Timer(seconds, self._end) if seconds is not None else None
        try:
            if timer is not None:
                timer.daemon = True
                timer.start()
            yield
        except Stopped as error:  # Of the handler of a training, which knows no limit.
            if not self._over:
                raise
            raise self._timed_out() from error
        finally:
            if timer is not None:
                timer.cancel()
                if timer.is_alive():  # Else it never began, or is through.
                    timer.join()

    def _end(self) -> None:
        self._over = True
        os.kill(os.getpid(), signal.SIGTERM)

    def _timed_out(self) -> TimedOut:
        return TimedOut(
            f"the stage {self._stage} took longer than its limit of {self._seconds:g} s "
            "(--stage_limits); the same command goes on with it"
        )

    def handle(self, number: int, frame: Any) -> None:
        """The signal handler."""
        if self._over:
            raise self._timed_out()
        raise Stopped(
            f"stopped by SIGTERM in the stage {self._stage}; the same command goes on with it"
        )


@contextlib.contextmanager
def stoppable() -> Iterator[Limits]:
    """Handles SIGTERM while the block runs, in the main thread; elsewhere Python allows none."""
    limits = Limits()
    if threading.current_thread() is not threading.main_thread():
        yield limits
        return
    previous = signal.signal(signal.SIGTERM, limits.handle)
    try:
        yield limits
    finally:
        signal.signal(signal.SIGTERM, previous)
