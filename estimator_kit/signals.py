"""Waiting for SIGTERM or Ctrl-C, for what serves until then. Imports no TensorFlow."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional


class Signalled(threading.Event):
    """Set by a signal.

    Attributes:
      number: the last signal's; None before the first.
    """

    number: Optional[int] = None


@contextmanager
def until_signalled() -> Iterator[Signalled]:
    """An event that SIGTERM and Ctrl-C set; outside the main thread nothing does."""
    ended = Signalled()
    if threading.current_thread() is not threading.main_thread():
        yield ended
        return

    def handler(number: int, frame: Optional[Any]) -> None:
        ended.number = number
        ended.set()

    before = {s: signal.signal(s, handler) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ended
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
