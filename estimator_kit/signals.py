"""Waits for SIGTERM or Ctrl-C, for servers that run until then. Imports no TensorFlow."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional


class Signalled(threading.Event):
    """An event that a signal sets.

    Attributes:
      number: the number of the last signal; None before the first one.
    """

    number: Optional[int] = None


@contextmanager
def until_signalled() -> Iterator[Signalled]:
    """An event that SIGTERM and Ctrl-C set; outside the main thread, nothing sets it."""
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
