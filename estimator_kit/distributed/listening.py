"""Restricts a server to its own address, because TensorFlow's servers listen on every interface.

The gRPC server of `tf.distribute.Server` binds the wildcard address, and it has no option for that.
So, as soon as it listens, its socket gets a kernel filter: a classic BPF program, which
`SO_ATTACH_FILTER` accepts without privileges. The filter accepts packets for the address in
TF_CONFIG and for loopback, by which the server reaches itself. It drops all other packets before a
connection is made. The server is open only during the few system calls before the filter is set.

This is not authentication: everyone who can reach that address can use the server.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterable
from typing import Union

from estimator_kit.errors import ConfigError

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

# <asm/socket.h>, the same on x86 and ARM.
_SO_ATTACH_FILTER = 26

# <linux/filter.h>: offsets from this value on are read from the network header.
_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF
_LOAD_WORD, _LOAD_BYTE, _SHIFT_RIGHT, _EQUAL, _RETURN = 0x20, 0x30, 0x74, 0x15, 0x06

_LOOPBACK: tuple[Address, ...] = (
    ipaddress.IPv4Address("127.0.0.1"),
    ipaddress.IPv6Address("::1"),
)


def own_addresses(address: str, others: Iterable[str] = ()) -> list[Address]:
    """The addresses of this machine that the host of host:port stands for.

    Args:
      address: the host:port of this task.
      others: the addresses of the other tasks, which must reach this one.

    Raises:
      ConfigError: the host is not an address of this machine, so its server cannot be restricted to
        it. Or it is a name for the loopback interface, which other machines cannot reach.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"{address}: the host of this task's address in TF_CONFIG is unknown: {error}"
        ) from error
    addresses = {ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found}
    own = sorted((a for a in addresses if _is_own(a)), key=str)
    if not own:
        raise ConfigError(
            f"{address}: expected an address of this machine for this task in TF_CONFIG, so that "
            "its server can be restricted to it. Use an address of this machine (in Kubernetes the "
            "pod's address, from a headless service), or set --listen_on_all_interfaces."
        )
    hosts = {other.rpartition(":")[0].strip("[]") for other in others} - {host}
    elsewhere = sorted(hosts - {"localhost", "::1"} - {h for h in hosts if h.startswith("127.")})
    if elsewhere and all(entry.is_loopback for entry in own):
        raise ConfigError(
            f"{address}: on this machine the address of this task in TF_CONFIG is {own[0]}, a "
            f"loopback address that {elsewhere[0]} cannot reach. Use the machine's address in the "
            "network, or correct its line in /etc/hosts."
        )
    return own


def is_number(address: str) -> bool:
    """Whether the host of host:port is an IP address, not a name."""
    try:
        ipaddress.ip_address(address.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True


def _is_own(address: Address) -> bool:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def keep_to(addresses: Iterable[Address], port: int) -> None:
    """Restricts the sockets of this process that listen at a port to some addresses.

    Raises:
      ConfigError: this system has no such filters.
    """
    program = filter_program([*addresses, *_LOOPBACK])
    listening = _listening(port)
    if not listening or sys.platform != "linux":
        raise ConfigError(
            "the server of this task listens on all interfaces, and on this system it cannot be "
            "restricted to its address. Set --listen_on_all_interfaces if the network is safe."
        )
    buffer = ctypes.create_string_buffer(program)
    argument = struct.pack("HL", len(program) // 8, ctypes.addressof(buffer))
    for server in listening:
        with server:
            server.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, argument)


def _listening(port: int) -> list[socket.socket]:
    """Duplicates of the sockets of this process that listen at a port."""
    found = []
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return []
    for number in numbers:
        try:
            candidate = socket.socket(fileno=os.dup(int(number)))
        except OSError:  # Not a socket, or already closed.
            continue
        try:
            name = candidate.getsockname()
            listens = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError:
            listens, name = 0, ()
        if listens and isinstance(name, tuple) and len(name) > 1 and name[1] == port:
            found.append(candidate)
        else:
            candidate.close()
    return found


def filter_program(addresses: Iterable[Address]) -> bytes:
    """The BPF program that accepts packets for the given addresses, and drops all other packets.

    For each address it compares the IP version and each word of the destination. If all are equal,
    it accepts the packet; else it goes on with the next address.
    """
    program: list[tuple[int, int, int, int]] = []
    for address in dict.fromkeys(addresses):
        words = struct.unpack(f"!{len(address.packed) // 4}I", address.packed)
        offset = 16 if address.version == 4 else 24
        tests = [(_NETWORK_HEADER, address.version)]
        tests += [(_NETWORK_HEADER + offset + 4 * i, word) for i, word in enumerate(words)]
        # Three instructions check the version, two check a word, and one accepts.
        left = 3 + 2 * len(words) + 1
        for i, (where, value) in enumerate(tests):
            program.append((_LOAD_BYTE if i == 0 else _LOAD_WORD, 0, 0, where))
            left -= 1
            if i == 0:
                program.append((_SHIFT_RIGHT, 0, 0, 4))
                left -= 1
            left -= 1
            program.append((_EQUAL, 0, left, value))
        program.append((_RETURN, 0, 0, 0xFFFFFFFF))
    program.append((_RETURN, 0, 0, 0))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)
