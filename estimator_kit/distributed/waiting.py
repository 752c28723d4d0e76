"""Waiting for other tasks of the cluster: with a time-out, and saying for whom.

A task is there when its server takes a connection; nothing is sent.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

_log = logging.getLogger("estimator_kit")

# Seconds between two looks, and between two lines that say for whom a task waits.
_LOOK, _SAY = 0.25, 10.0


def reachable(address: str, seconds: float = 1.0) -> bool:
    """Whether the server at host:port takes a connection."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds):
            return True
    except OSError:
        return False


def wait_for(
    tasks: Sequence[tuple[str, str]],
    *,
    this: str,
    seconds: float,
    over: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Waits until the servers of all tasks can be reached.

    Args:
      tasks: name and address of each.
      this: the name of the task that waits.
      seconds: that it waits at most.
      over: looked at meanwhile; once it says yes there is nothing to wait for.
      clock: seconds that only grow.

    Returns:
      Whether they are all there; False where `over` came first.

    Raises:
      tf.errors.UnavailableError: one is not there in time; the message names those missing.
    """

    def missing() -> list[str]:
        return [f"{name} at {address}" for name, address in tasks if not reachable(address)]

    return wait_until(
        missing, what="the server of", this=this, seconds=seconds, over=over, clock=clock
    )


def wait_until(
    missing: Callable[[], Sequence[str]],
    *,
    what: str,
    this: str,
    seconds: float,
    over: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """As `wait_for`, for anything: waits until nothing is missing."""
    end, said = clock() + seconds, float("-inf")
    while True:
        absent = missing()
        if not absent:
            return True
        if over():
            return False
        now = clock()
        names = ", ".join(absent)
        if now >= end:
            raise tf.errors.UnavailableError(
                None,
                None,
                f"{this} waited {seconds:g} seconds for {what} {names}; look whether it runs and "
                "can be reached from here, or raise --cluster_timeout_secs",
            )
        if now - said >= _SAY:
            said = now
            _log.info("%s waits for %s %s, up to %g seconds", this, what, names, end - now)
        threading.Event().wait(_LOOK)
