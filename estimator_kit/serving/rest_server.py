"""Runs waitress in a thread. It stops without dropping a request, and slow clients do not block it.

If the queue is full, a separate thread answers a request with 429. A connection has limited time to
send a complete request and to read its answer. If there are too many connections, the server closes
those that have kept it waiting longest. None of this affects a request that is complete.

waitress measures its own limits with the clock of the system, which may be set while it runs. This
module replaces these limits, and measures them with monotonic time.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

import waitress.adjustments
import waitress.server
import waitress.task
import waitress.wasyncore

from estimator_kit.serving import json_answers
from estimator_kit.serving.errors import HTTP

_log = logging.getLogger("estimator_kit")

_READ_TO_ITS_END = 8

# The part of the most connections from which on the server closes those that keep it waiting.
_MANY = 0.8

# The errors of accepting a connection when the process or the machine has no free file or memory.
_NO_FREE_FILE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# Seconds without accepting connections after such an error, and between two lines of the log.
_PAUSE, _SILENCE = 1.0, 60.0

# More than any time or number that waitress compares with it.
_NEVER = 2**62

# Seconds for a request to arrive, from its first byte, and for an answer without progress.
_SLOW_SECS = 30.0

# The most seconds between two looks at the connections.
_LOOK_SECS = 1.0

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
      connections: the most open connections. Further ones wait until others are closed.
    """

    def __init__(
        self,
        app: Any,
        sock: socket.socket,
        *,
        threads: int,
        waiting: int,
        max_bytes: int,
        connections: int = 800,
    ):
        # Under load, requests often wait for a thread. This does not need a warning each time.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._map: dict[int, Any] = {}
        self._dispatcher = _Dispatcher(threads, waiting)
        self._many = max(int(_MANY * connections), 1)
        settings = waitress.adjustments.Adjustments(
            ident=None,
            max_request_body_size=_READ_TO_ITS_END * max_bytes,
            connection_limit=_NEVER,
            channel_timeout=_NEVER,
            clear_untrusted_proxy_headers=True,
        )
        self._server = _Door(app, sock, connections, self._map, self._dispatcher, settings)
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)
        self._ending = threading.Event()
        self._closing = threading.Lock()
        self._closed = False
        self._end = 0.0
        # What the server waits for, for each connection, and since when.
        self._waits: dict[Any, tuple[tuple[Any, ...], float]] = {}
        self._tidied = -_LOOK_SECS

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
            self._turn(_LOOK_SECS)
            self._tidy(time.monotonic())
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
        if now < self._tidied + _LOOK_SECS and len(channels) < self._many:
            return
        self._tidied = now
        before, self._waits = self._waits, {}
        for channel in channels:
            waits_for = _waits_for(channel)
            if waits_for is None:
                continue
            known = before.get(channel)
            since = known[1] if known is not None and known[0] == waits_for else now
            self._waits[channel] = (waits_for, since)
            if now - since > (_IDLE_SECS if waits_for[0] == "request" else _SLOW_SECS):
                channel.will_close = True
        if len(channels) >= self._many:
            asked = [
                (since, channel)
                for channel, (waits_for, since) in self._waits.items()
                if waits_for[0] != "reader"
            ]
            asked.sort(key=lambda wait: wait[0])
            for _, channel in asked[: max(self._many // 20, 1)]:
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


def _waits_for(channel: Any) -> Optional[tuple[Any, ...]]:
    """What the server waits for at a connection; None if it works on a request.

    waitress sets `last_activity` when bytes arrive or leave, so the value changes with progress.
    Only these changes count here, because the value is of the clock of the system.
    """
    request = channel.request
    if channel.total_outbufs_len:
        return ("reader", channel.last_activity)
    if channel.requests:
        return None
    return ("request", channel.last_activity) if request is None else ("its end", request)


class _Door(waitress.server.TcpWSGIServer):
    """Accepts connections, at most `most` at the same time. Logs once a minute that others wait."""

    def __init__(
        self, app: Any, sock: socket.socket, most: int, map_: Any, dispatcher: Any, settings: Any
    ):
        self._most = most
        self._closed_until = self._silent_until = -_SILENCE
        super().__init__(
            app,
            map_,
            _sock=sock,
            dispatcher=dispatcher,
            adj=settings,
            bind_socket=False,
            sockinfo=(sock.family, sock.type, sock.proto, sock.getsockname()),
        )

    def readable(self) -> bool:
        if len(self.active_channels) >= self._most:
            self._tell(f"{self._most} connections are open")
            return False
        return time.monotonic() >= self._closed_until and bool(super().readable())

    def accept(self) -> Any:
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _NO_FREE_FILE:
                raise
            self._closed_until = time.monotonic() + _PAUSE
            self._tell(f"a connection was not accepted: {error.strerror}")
            return None

    def _tell(self, what: str) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + _SILENCE
            _log.warning("REST: %s; new connections wait until others are closed", what)


class _Threads(waitress.task.ThreadedTaskDispatcher):
    """The threads of waitress, which end within a monotonic time."""

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> Any:
        end = time.monotonic() + timeout
        self.set_thread_count(0)
        with self.lock:
            while self.threads and time.monotonic() < end:
                self.thread_exit_cv.wait(0.1)
        return super().shutdown(cancel_pending, 0)


class _Dispatcher(_Threads):
    """Threads with a queue of limited length.

    Attributes:
      accepted: the number of requests that wait or are being answered.
    """

    def __init__(self, threads: int, waiting: int):
        super().__init__()
        self.accepted = 0
        self._most, self._waiting = threads + waiting, waiting
        self._count_lock = threading.Lock()
        self._refusing = _Threads()
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
