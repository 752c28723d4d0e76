"""waitress, in a thread, that ends without dropping a request."""

from __future__ import annotations

import logging
import socket
import threading
import time
from typing import Any

import waitress.server
import waitress.wasyncore

_READ_TO_ITS_END = 8


class RestServer:
    """Serves a WSGI application at a bound socket.

    Args:
      app: the application.
      sock: bound, and closed at the end.
      threads: requests at the same time.
      max_bytes: of a request's body, which the application sees to. A body that is some times as
        large is read to its end nevertheless, because a client that is cut off while it sends does
        not look for an answer.
    """

    def __init__(self, app: Any, sock: socket.socket, *, threads: int, max_bytes: int):
        # Requests that wait for a thread are usual under load, and no reason for a warning each.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._map: dict[int, Any] = {}
        self._server = waitress.server.create_server(
            app, map=self._map, sockets=[sock], threads=threads, ident=None,
            max_request_body_size=_READ_TO_ITS_END * max_bytes, connection_limit=1000,
            clear_untrusted_proxy_headers=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)
        self._ending = threading.Event()
        self._end = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Closes the port, answers what was asked, at most so many seconds, and returns."""
        self._end = time.monotonic() + grace
        self._ending.set()
        if self._thread.ident is None:
            self._close()
            return
        self._server.pull_trigger()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._turn(1.0)
        waitress.wasyncore.dispatcher.close(self._server)  # Its socket; connections stay.
        while self._is_busy() and time.monotonic() < self._end:
            self._turn(0.05)
        self._close()

    def _turn(self, seconds: float) -> None:
        waitress.wasyncore.loop(timeout=seconds, use_poll=True, map=self._map, count=1)

    def _is_busy(self) -> bool:
        return any(
            channel.requests or channel.total_outbufs_len
            for channel in list(self._server.active_channels.values())
        )

    def _close(self) -> None:
        self._server.task_dispatcher.shutdown(timeout=max(self._end - time.monotonic(), 0.1))
        waitress.wasyncore.close_all(self._map, ignore_all=True)
