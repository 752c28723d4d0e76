"""Requests that end at a deadline: HTTP connections, what repeats requests, and their error.

The timeout of a socket holds for each call: a server that sends a byte now and then never exceeds
it. Here each call gets the time that is left until the deadline of the request: connecting, the TLS
handshake, sending, and reading the answer. Only the lookup of a host name has the system's
timeouts.

    connection = Connection("models.example.com", None, ssl.create_default_context())
    connection.deadline = time.monotonic() + 2
    connection.request("GET", "/v1/models/ads")
    text = connection.getresponse().read()      # one of TIMEOUTS after 2 seconds

`Retries` repeats requests that a server did not answer, for REST and gRPC. Tests pass a clock.
"""

from __future__ import annotations

import http.client
import io
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional, TypeVar

# The errors of an exceeded deadline. Before Python 3.10 the second does not inherit from the first.
TIMEOUTS = (TimeoutError, socket.timeout)

# Sockets allow at most 24 days.
_LONGEST = 1e6


class ServingError(RuntimeError):
    """A server did not answer a request.

    Attributes:
      code: the gRPC code, for example `NOT_FOUND`; with REST it follows from the HTTP status.
      message: the message of the server.
    """

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Connection(http.client.HTTPConnection):
    """A connection that stays open between requests.

    Args:
      host: the name or address of the host.
      port: the port; None for the default of the protocol.
      context: the TLS context; None for plain HTTP.

    Attributes:
      deadline: the deadline of the request, in seconds of `time.monotonic`. Calls after it raise
        one of `TIMEOUTS`.
    """

    def __init__(self, host: str, port: Optional[int], context: Optional[ssl.SSLContext]):
        self._context = context
        self.default_port = http.client.HTTP_PORT if context is None else http.client.HTTPS_PORT
        # Always with a port: otherwise the end of an IPv6 address would be read as the port.
        super().__init__(host, self.default_port if port is None else port)
        self.deadline = float("inf")

    def connect(self) -> None:
        """Connects to the first of the host's addresses that can be reached."""
        addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for place, (family, kind, protocol, _, address) in enumerate(addresses):
            sock = socket.socket(family, kind, protocol)
            try:
                self._limit(sock)
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._context is not None:
                    self._limit(sock)
                    sock = self._context.wrap_socket(sock, server_hostname=self.host)
            except OSError:
                sock.close()
                if place == len(addresses) - 1:
                    raise
            else:
                self.sock = sock
                return

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        left = memoryview(data)
        while left:
            self._limit(self.sock)
            left = left[self.sock.send(left) :]

    def _limit(self, sock: socket.socket) -> None:
        """Limits the next call of a socket to the time that is left."""
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the deadline of the request is over")
        sock.settimeout(min(seconds, _LONGEST))

    def response_class(  # type: ignore[override]
        self, sock: Any, *args: Any, **options: Any
    ) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, *args, **options)
        response.fp = io.BufferedReader(_Limited(response.fp.detach(), lambda: self._limit(sock)))
        return response


class _Limited(io.RawIOBase):
    """The data of a socket. Each read ends at the deadline."""

    def __init__(self, raw: Any, limit: Any):
        self._raw = raw
        self._limit = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self._limit()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


Answer = TypeVar("Answer")

# The codes of errors that are not the fault of the request: the server is unavailable or stops.
# Predictions change nothing, so it is safe to repeat them.
_PASSING = ("UNAVAILABLE",)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class Retries:
    """Calls with a deadline.

    Args:
      timeout_secs: the time for a call with all its tries, or for all calls in one `shared`.
      clock, sleep: functions like `time.monotonic` and `time.sleep`.
    """

    def __init__(
        self,
        timeout_secs: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
    ):
        if timeout_secs <= 0:
            raise ValueError(f"timeout_secs: got {timeout_secs!r}, expected more than 0")
        self._timeout = timeout_secs
        self._clock = clock
        self._sleep = sleep
        self._local = threading.local()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """The calls of this thread inside share one deadline, set by the outermost `shared`."""
        if getattr(self._local, "end", None) is not None:
            yield
            return
        self._local.end = self._clock() + self._timeout
        try:
            yield
        finally:
            self._local.end = None

    def call(self, attempt: Callable[[float], Answer]) -> Answer:
        """Calls `attempt` with the seconds that are left, and returns its answer.

        Raises:
          ServingError: the last error, if the time is over or another try cannot help.
        """
        end = getattr(self._local, "end", None)
        if end is None:
            end = self._clock() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                return attempt(max(end - self._clock(), 0.001))
            except ServingError as error:
                # A random time, so that many clients do not come back at once.
                wait = pause * random.uniform(0.5, 1.0)
                if error.code not in _PASSING or self._clock() + wait >= end:
                    raise
            self._sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
