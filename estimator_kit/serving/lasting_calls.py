"""gRPC calls that go on until their client ends them: threads of their own, and an end.

Such a call would keep a thread that predictions need, and a server that stops would wait for it
until its time is over. So their methods run in a small pool of their own, and `end` cancels the
calls that are left. This module uses two attributes of a method that grpcio calls experimental,
`experimental_thread_pool` and `experimental_non_blocking`, as grpcio-health-checking does.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any


class LastingCalls:
    """The calls of one service.

    Args:
      name: of its threads.
      threads: how many there are.
    """

    def __init__(self, name: str, threads: int):
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._contexts: set[Any] = set()
        self._ended = False

    def method(self, method: Callable[..., Any], *, non_blocking: bool = False) -> Any:
        """A method of a service, which grpcio then calls in these threads.

        Args:
          method: takes a request and a context.
          non_blocking: gives the method a third argument, `send_response_callback`. The call goes
            on when the method returns, without a thread.
        """
        made: Any = functools.partial(method)
        made.experimental_thread_pool = self._pool
        made.experimental_non_blocking = non_blocking
        return made

    def run(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Runs something in these threads."""
        self._pool.submit(work, *arguments)

    def add(self, context: Any) -> None:
        """Remembers a call until it is over; after `end` cancels it at once."""
        with self._lock:
            self._contexts.add(context)
            is_late = self._ended
        if not context.add_callback(lambda: self._remove(context)):
            self._remove(context)  # It was over before.
        if is_late:
            context.cancel()

    def end(self) -> None:
        """Cancels the calls that are left, and those that come later."""
        with self._lock:
            self._ended = True
            left = list(self._contexts)
        for context in left:
            context.cancel()

    def _remove(self, context: Any) -> None:
        with self._lock:
            self._contexts.discard(context)
