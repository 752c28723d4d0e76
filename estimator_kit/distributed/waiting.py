"""Waits for other tasks of the cluster, with a timeout, and logs their names.

A task counts as running when its server accepts a connection. Nothing is sent.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

_log = logging.getLogger("estimator_kit")

# Seconds between two checks, and between two log lines that name the missing tasks.
_LOOK, _SAY = 0.25, 10.0


def reachable(address: str, seconds: float = 1.0) -> bool:
    """Whether the server at host:port accepts a connection."""
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
      tasks: the name and the address of each task.
      this: the name of the task that waits.
      seconds: how long it waits at most.
      over: checked while waiting; the wait ends when it returns True.
      clock: a monotonic clock in seconds; an argument for tests.

    Returns:
      True if all servers can be reached; False if `over` ended the wait.

    Raises:
      tf.errors.UnavailableError: a server was not reachable in time; the message names it.
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
    """Like `wait_for`, for any condition: waits until `missing` returns nothing."""
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
                f"{this} waited {seconds:g} seconds for {what} {names}. Check that it runs and "
                "that this machine can reach it, or raise --cluster_timeout_secs.",
            )
        if now - said >= _SAY:
            said = now
            _log.info("%s waits for %s %s, up to %g seconds", this, what, names, end - now)
        threading.Event().wait(_LOOK)
