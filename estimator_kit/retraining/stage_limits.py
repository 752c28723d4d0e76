"""Stops a stage on SIGTERM, or when it exceeds a limit in seconds.

    with stoppable() as limits:
        with limits.stage("train", 7200):
            ...

Outside training, SIGTERM raises `Stopped` at once in the main thread. This is safe because every
stage writes whole files or none. While training runs, it has its own handler, which saves a
checkpoint. When a limit is exceeded, the process sends itself a SIGTERM.

Python drops an error that is raised while it runs a callback of a weak reference or a `__del__`. So
the handler sends the signal again if the stage is still at work a second later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any, Optional

from estimator_kit.errors import Stopped, TimedOut

_AGAIN_SECS = 1.0


class Limits:
    """Knows the current stage, and whether it has exceeded its limit."""

    def __init__(self) -> None:
        self._stage = "start"
        self._seconds: Optional[float] = None
        self._over = False
        self._again: Optional[threading.Timer] = None

    @contextlib.contextmanager
    def stage(self, name: str, seconds: Optional[float]) -> Iterator[None]:
        """Runs a stage, with a limit unless `seconds` is `None`.

        Raises:
          TimedOut: the stage exceeded its limit. It replaces Stopped.
        """
        self._stage, self._seconds, self._over = name, seconds, False
        timer = threading.Timer(seconds, self._end) if seconds is not None else None
        try:
            if timer is not None:
                timer.daemon = True
                timer.start()
            yield
        except Stopped as error:  # From the handler of a training, which does not know the limit.
            if not self._over:
                raise
            raise self._timed_out() from error
        finally:
            self.forget()
            if timer is not None:
                timer.cancel()
                if timer.is_alive():  # Otherwise it never started, or has ended.
                    timer.join()

    def _end(self) -> None:
        self._over = True
        os.kill(os.getpid(), signal.SIGTERM)

    def forget(self) -> None:
        """Sends no signal again: the error of the last one has arrived."""
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def _timed_out(self) -> TimedOut:
        return TimedOut(
            f"the stage {self._stage} took longer than its limit of {self._seconds:g} s "
            "(--stage_limits). Run the same command again to go on with it."
        )

    def handle(self, number: int, frame: Any) -> None:
        """The signal handler."""
        self.forget()
        self._again = threading.Timer(_AGAIN_SECS, os.kill, (os.getpid(), signal.SIGTERM))
        self._again.daemon = True
        self._again.start()
        if self._over:
            raise self._timed_out()
        raise Stopped(
            f"stopped by SIGTERM in the stage {self._stage}. Run the same command again to go on "
            "with it."
        )


@contextlib.contextmanager
def stoppable() -> Iterator[Limits]:
    """Handles SIGTERM while the block runs. Python allows that only in the main thread."""
    limits = Limits()
    if threading.current_thread() is not threading.main_thread():
        yield limits
        return
    previous = signal.signal(signal.SIGTERM, limits.handle)
    try:
        yield limits
    finally:
        limits.forget()
        signal.signal(signal.SIGTERM, previous)
