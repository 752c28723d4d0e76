"""HTTP connections whose requests end at a deadline, however slowly the server sends.

The timeout of a socket holds for each call: a server that sends a byte now and then never exceeds
it. Here each call gets the time that is left until the deadline of the request: connecting, the TLS
handshake, sending, and reading the answer. Only the lookup of a host name has the system's
timeouts.

    connection = Connection("models.example.com", None, ssl.create_default_context())
    connection.deadline = time.monotonic() + 2
    connection.request("GET", "/v1/models/ads")
    text = connection.getresponse().read()      # one of TIMEOUTS after 2 seconds
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from typing import Any, Optional

# The errors of an exceeded deadline. Before Python 3.10 the second does not inherit from the first.
TIMEOUTS = (TimeoutError, socket.timeout)

# Sockets allow at most 24 days.
_LONGEST = 1e6


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
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for place, (family, kind, protocol, _, address) in enumerate(found):
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
                if place == len(found) - 1:
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
        made = http.client.HTTPResponse(sock, *args, **options)
        made.fp = io.BufferedReader(_Limited(made.fp.detach(), lambda: self._limit(sock)))
        return made


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
