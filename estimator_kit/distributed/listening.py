"""Keeps a server to its own address: TensorFlow's listen on every interface and cannot be told not.

The gRPC server of `tf.distribute.Server` binds the wildcard address. So, once it listens, its
socket gets a filter of the kernel (a classic BPF program, as `SO_ATTACH_FILTER` takes without
privileges): packets for any other address of the machine than the one in TF_CONFIG, and loopback,
by which the server reaches itself, are dropped before a connection is made. Between the two lies
the time of a few system calls.

It is no authentication: whoever reaches that address can still use the server.
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

# <linux/filter.h>: where an address above this is read from the network header.
_NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF
_LOAD_WORD, _LOAD_BYTE, _SHIFT_RIGHT, _EQUAL, _RETURN = 0x20, 0x30, 0x74, 0x15, 0x06

_LOOPBACK: tuple[Address, ...] = (
    ipaddress.IPv4Address("127.0.0.1"),
    ipaddress.IPv6Address("::1"),
)


def own_addresses(address: str, others: Iterable[str] = ()) -> list[Address]:
    """What the host of host:port is, among the addresses of this machine.

    Args:
      address: of this task.
      others: those of the other tasks, which have to reach it.

    Raises:
      ConfigError: it is none, so that a server could not be kept to it; or it is one of the
        loopback interface by a name that another task would not come to.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"{address}: the own address of this task in TF_CONFIG has no known host: {error}"
        ) from error
    addresses = {ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found}
    own = sorted((a for a in addresses if _is_own(a)), key=str)
    if not own:
        raise ConfigError(
            f"{address}: the own address of this task in TF_CONFIG is none of this machine's, so "
            "its server cannot be kept to it; name an address that the machine has (in Kubernetes "
            "that of the pod, as a headless service gives), or say --listen_on_all_interfaces"
        )
    hosts = {other.rpartition(":")[0].strip("[]") for other in others} - {host}
    elsewhere = sorted(hosts - {"localhost", "::1"} - {h for h in hosts if h.startswith("127.")})
    if elsewhere and all(entry.is_loopback for entry in own):
        raise ConfigError(
            f"{address}: the own address of this task in TF_CONFIG is {own[0]} here, of the "
            f"loopback interface, where {elsewhere[0]} cannot come; name the machine's address in "
            "the network, or mend its line in /etc/hosts"
        )
    return own


def is_number(address: str) -> bool:
    """Whether the host of host:port is an address itself, and no name."""
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
    """Lets the sockets of this process that listen at a port take connections for some addresses.

    Raises:
      ConfigError: this system has no such filters.
    """
    program = filter_program([*addresses, *_LOOPBACK])
    listening = _listening(port)
    if not listening or sys.platform != "linux":
        raise ConfigError(
            "the server of this task cannot be kept to its address on this system, where it "
            "listens on all interfaces; say --listen_on_all_interfaces if the network is safe"
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
        except OSError:  # No socket, or closed since.
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
    """The BPF program that accepts packets for one of some addresses, and drops all others.

    For each address: if the packet is of its version and each word of the destination is its own,
    accept; else go on with the next one.
    """
    program: list[tuple[int, int, int, int]] = []
    for address in dict.fromkeys(addresses):
        words = struct.unpack(f"!{len(address.packed) // 4}I", address.packed)
        offset = 16 if address.version == 4 else 24
        tests = [(_NETWORK_HEADER, address.version)]
        tests += [(_NETWORK_HEADER + offset + 4 * i, word) for i, word in enumerate(words)]
        # The version takes three instructions, a word two, and the acceptance one.
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
