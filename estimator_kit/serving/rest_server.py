"""Runs waitress in a thread, and stops it without dropping a request."""

from __future__ import annotations

import logging
import socket
import threading
import time
from typing import Any

import waitress
import waitress.wasyncore

# waitress reads a body that is this many times too large to its end, because a client that is cut
# off while it sends does not read the answer.
_READ_TO_ITS_END = 8


class RestServer:
    """Serves a WSGI application at a bound socket.

    Args:
      app: the application.
      sock: a bound socket; the server closes it.
      threads: the number of requests that are answered at the same time; others wait.
      max_bytes: the most bytes of a request's body, which the application checks.
      connections: the most open connections. Further ones wait until others are closed, and the log
        says so. waitress closes those that have been silent for two minutes.
    """

    def __init__(
        self, app: Any, sock: socket.socket, *, threads: int, max_bytes: int, connections: int
    ):
        # Under load, requests often wait for a thread. This does not need a warning each time.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._map: dict[int, Any] = {}
        self._server: Any = waitress.create_server(
            app,
            map=self._map,
            sockets=[sock],
            threads=threads,
            ident=None,
            max_request_body_size=_READ_TO_ITS_END * max_bytes,
            connection_limit=connections,
            clear_untrusted_proxy_headers=True,
        )
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)
        self._ending = threading.Event()
        self._end = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Closes the port, answers open requests for at most `grace` seconds, and returns."""
        self._end = time.monotonic() + grace
        if self._thread.is_alive():
            self._server.trigger.pull_trigger(self._ending.set)  # Its thread sets the event.
            self._thread.join()
        else:
            self._close()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._turn(1.0)
        waitress.wasyncore.dispatcher.close(self._server)  # Closes the port; connections stay open.
        self._turn(0.05)  # Reads the requests that have arrived.
        while self._is_busy() and time.monotonic() < self._end:
            self._turn(0.05)
        self._close()

    def _turn(self, seconds: float) -> None:
        waitress.wasyncore.loop(timeout=seconds, use_poll=True, map=self._map, count=1)

    def _is_busy(self) -> bool:
        """Whether a request is open. Closes the connections that could only send further ones."""
        channels = list(self._server.active_channels.values())
        busy = [c for c in channels if c.requests or c.total_outbufs_len]
        for channel in channels:
            if channel not in busy and channel.request is None:
                channel.will_close = True
        return bool(busy)

    def _close(self) -> None:
        timeout = max(self._end - time.monotonic(), 0.1)
        self._server.task_dispatcher.shutdown(timeout=timeout)
        waitress.wasyncore.close_all(self._map, ignore_all=True)
