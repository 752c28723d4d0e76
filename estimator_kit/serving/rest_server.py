"""Runs waitress in a thread. It stops without dropping a request, and slow clients do not block it.

If the queue is full, a separate thread answers a request with 429. A connection has limited time to
send a complete request and to read its answer. If there are too many connections, the server closes
those that have kept it waiting longest. None of this affects a request that is complete.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

import waitress.server
import waitress.task
import waitress.wasyncore

from estimator_kit.serving import json_answers
from estimator_kit.serving.errors import HTTP

_READ_TO_ITS_END = 8

# Open connections. Processes are often limited to 1024 open files.
_CONNECTIONS = 800

# Seconds for a request to arrive, from its first byte, and for an answer without progress.
_SLOW_SECS = 30.0

# Seconds that a connection without a request stays open.
_IDLE_SECS = 120.0


class RestServer:
    """Serves a WSGI application at a bound socket.

    Args:
      app: the application.
      sock: a bound socket; the server closes it.
      threads: the number of requests that are answered at the same time.
      waiting: the most requests that wait for a thread; further requests get 429.
      max_bytes: the most bytes of a request's body. The application checks this. The server reads
        somewhat larger bodies to the end, because a client that is cut off while it sends does not
        read the answer.
    """

    def __init__(
        self, app: Any, sock: socket.socket, *, threads: int, waiting: int, max_bytes: int
    ):
        # Under load, requests often wait for a thread. This does not need a warning each time.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._map: dict[int, Any] = {}
        self._dispatcher = _Dispatcher(threads, waiting)
        self._server = waitress.server.create_server(
            app,
            map=self._map,
            sockets=[sock],
            _dispatcher=self._dispatcher,
            ident=None,
            max_request_body_size=_READ_TO_ITS_END * max_bytes,
            connection_limit=2 * _CONNECTIONS,
            clear_untrusted_proxy_headers=True,
        )
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)
        self._ending = threading.Event()
        self._closing = threading.Lock()
        self._closed = False
        self._end = 0.0
        self._coming: dict[Any, tuple[Any, float]] = {}  # Connections with incomplete requests.
        self._tidied = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Closes the port, answers open requests for at most `grace` seconds, and returns."""
        self._end = time.monotonic() + grace
        self._ending.set()
        if self._thread.ident is None:
            self._close()
            return
        with self._closing:
            if not self._closed:  # The thread may already have ended.
                self._server.pull_trigger()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._turn(1.0)
            self._tidy(time.time())
        waitress.wasyncore.dispatcher.close(self._server)  # Closes the port; connections stay open.
        self._turn(0.05)  # Reads the requests that have arrived.
        while self._is_busy() and time.monotonic() < self._end:
            self._close_idle()
            self._turn(0.05)
        self._close()

    def _turn(self, seconds: float) -> None:
        waitress.wasyncore.loop(timeout=seconds, use_poll=True, map=self._map, count=1)

    def _tidy(self, now: float) -> None:
        """Closes connections that keep the server waiting."""
        channels = list(self._server.active_channels.values())
        if now < self._tidied + min(1.0, _SLOW_SECS) and len(channels) < _CONNECTIONS:
            return
        self._tidied = now
        waits = []  # (since when, connection).
        coming = {}
        for channel in channels:
            request = channel.request
            if channel.total_outbufs_len:
                if now - channel.last_activity > _SLOW_SECS:
                    channel.will_close = True
            elif not channel.requests and request is None:
                waits.append((channel.last_activity, channel))
                if now - channel.last_activity > _IDLE_SECS:
                    channel.will_close = True
            elif not channel.requests:
                known = self._coming.get(channel)
                since = known[1] if known is not None and known[0] is request else now
                coming[channel] = (request, since)
                waits.append((since, channel))
                if now - since > _SLOW_SECS:
                    channel.will_close = True
        self._coming = coming
        if len(channels) >= _CONNECTIONS:
            waits.sort(key=lambda wait: wait[0])
            for _, channel in waits[: max(_CONNECTIONS // 20, 1)]:
                channel.will_close = True

    def _close_idle(self) -> None:
        """Closes the connections that could only send further requests."""
        for channel in list(self._server.active_channels.values()):
            if not channel.requests and channel.request is None and not channel.total_outbufs_len:
                channel.will_close = True

    def _is_busy(self) -> bool:
        return any(
            channel.requests or channel.total_outbufs_len
            for channel in list(self._server.active_channels.values())
        )

    def _close(self) -> None:
        self._dispatcher.shutdown(timeout=max(self._end - time.monotonic(), 0.1))
        with self._closing:
            self._closed = True
            waitress.wasyncore.close_all(self._map, ignore_all=True)


class _Dispatcher(waitress.task.ThreadedTaskDispatcher):
    """Threads with a queue of limited length.

    Attributes:
      accepted: the number of requests that wait or are being answered.
    """

    def __init__(self, threads: int, waiting: int):
        super().__init__()
        self.accepted = 0
        self._most, self._waiting = threads + waiting, waiting
        self._count_lock = threading.Lock()
        self._refusing = waitress.task.ThreadedTaskDispatcher()
        self._refusing.set_thread_count(1)
        self.set_thread_count(threads)

    def add_task(self, task: Any) -> None:
        with self._count_lock:
            is_full = self.accepted >= self._most
            self.accepted += not is_full
        if not is_full:
            super().add_task(_Accepted(task, self._let_go))
            return
        task.requests[0].error = _TooManyError(self._waiting)
        self._refusing.add_task(task)

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> Any:
        self._refusing.shutdown(cancel_pending, timeout)
        return super().shutdown(cancel_pending, timeout)

    def _let_go(self) -> None:
        with self._count_lock:
            self.accepted -= 1


class _Accepted:
    """A task that reports when it is done."""

    def __init__(self, task: Any, let_go: Callable[[], None]):
        self._task = task
        self._let_go = let_go

    def service(self) -> None:
        try:
            self._task.service()
        finally:
            self._let_go()

    def cancel(self) -> None:
        self._task.cancel()
        self._let_go()


class _TooManyError:
    """The answer that waitress gives instead of the application."""

    def __init__(self, waiting: int):
        self._waiting = waiting

    def to_response(self, ident: Optional[str] = None) -> tuple[str, list[Any], bytes]:
        body = json_answers.error(
            f"{self._waiting} requests are already waiting. Try again later, or start the server "
            "with more --serving_threads."
        )
        headers = [("Content-Type", "application/json"), ("Retry-After", "1")]
        return HTTP["RESOURCE_EXHAUSTED"], headers, body
