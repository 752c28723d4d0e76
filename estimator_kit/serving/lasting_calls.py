"""gRPC calls that stay open until their client ends them: separate threads, and a way to end.

Such a call would occupy a thread that predictions need, and a server that stops would wait for it
until its deadline. So these methods run in a small separate pool, and `end` cancels open calls. The
module uses two attributes of methods that grpcio calls experimental, `experimental_thread_pool` and
`experimental_non_blocking`, as grpcio-health-checking does.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any


class LastingCalls:
    """The open calls of one service.

    Args:
      name: the name of its threads.
      threads: the number of threads.
    """

    def __init__(self, name: str, threads: int):
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._contexts: set[Any] = set()
        self._ended = False

    def method(self, method: Callable[..., Any], *, non_blocking: bool = False) -> Any:
        """Makes a method of a service that grpcio calls in these threads.

        Args:
          method: a function of a request and a context.
          non_blocking: whether the method gets a third argument, `send_response_callback`. Then the
            call stays open after the method returns, and needs no thread.
        """
        made: Any = functools.partial(method)
        made.experimental_thread_pool = self._pool
        made.experimental_non_blocking = non_blocking
        return made

    def run(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Runs a function in these threads."""
        self._pool.submit(work, *arguments)

    def add(self, context: Any) -> None:
        """Keeps track of a call until it ends. After `end`, cancels it at once."""
        with self._lock:
            self._contexts.add(context)
            is_late = self._ended
        if not context.add_callback(lambda: self._remove(context)):
            self._remove(context)  # The call has already ended.
        if is_late:
            context.cancel()

    def end(self) -> None:
        """Cancels all open and all later calls."""
        with self._lock:
            self._ended = True
            left = list(self._contexts)
        for context in left:
            context.cancel()

    def _remove(self, context: Any) -> None:
        with self._lock:
            self._contexts.discard(context)
