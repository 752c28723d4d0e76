"""The address that both servers listen on: gRPC and REST choose the same one for a host.

A name can have several addresses. The servers listen on its first IPv4 address, or its first IPv6
address if it has no other. `0.0.0.0` and `::` both mean all addresses of the machine, IPv4 and
IPv6, because gRPC has no other meaning of them.
"""

from __future__ import annotations

import errno
import ipaddress
import socket

from estimator_kit.errors import ConfigError

# Machines without IPv6 answer with these errors.
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


def bound(host: str, port: int, *, flag: str) -> socket.socket:
    """A socket that is bound to a port of a host.

    Args:
      host: a name or an address.
      port: the port; 0 is any free port.
      flag: the flag of the port in the error.

    Raises:
      ConfigError: the port cannot be bound.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_unspecified:
            try:
                return _bound(socket.AF_INET6, ("::", port))
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        return _bound(family, address)
    except OSError as error:
        raise ConfigError(
            f"{flag}={port}: {host} cannot be bound: {error.strerror or error}"
        ) from error


def _bound(family: int, address: tuple) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            is_every = address[0] == "::"
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_every)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def of_socket(sock: socket.socket) -> str:
    """The address of a bound socket, without its port."""
    return socket.getnameinfo(sock.getsockname(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]


def with_port(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
