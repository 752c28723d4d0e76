"""TensorFlow's gRPC server of a task, restricted to its address, and a ps from start to end.

A `tf.distribute.Server` cannot be stopped; it ends with its process. So a ps does not call `join`.
It waits until training is over and the trainers have left, and then ends.

The server binds the wildcard address, and TensorFlow has no option for that. So, as soon as it
listens, its socket gets a kernel filter: a classic BPF program, which `SO_ATTACH_FILTER` accepts
without privileges. The filter accepts packets for the address in TF_CONFIG and for loopback, by
which the server reaches itself. It drops all other packets before a connection is made. The server
is open only during the few system calls before the filter is set. This is not authentication:
everyone who can reach that address can use the server, and the traffic is not encrypted.
"""

from __future__ import annotations

import ctypes
import ipaddress
import logging
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, Union

import tensorflow as tf

from estimator_kit.config.areas.cluster import Cluster
from estimator_kit.config.areas.program import Program
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import Train
from estimator_kit.distributed.lost_tasks import Watch
from estimator_kit.distributed.waiting import Marks, goal_of, reachable
from estimator_kit.errors import ConfigError, Stopped
from estimator_kit.result import SIGTERM, RunResult
from estimator_kit.training.hooks.stop import StopRequest, stop_on_sigterm
from estimator_kit.training.run_config import session_config
from estimator_kit.training.team import needs_all_workers
from feature_specs.spec import FeatureSpec

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
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"{address}: the host of this task's address in TF_CONFIG is unknown: {error}"
        ) from error
    addresses = {ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries}
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
    listening = []
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
            listening.append(candidate)
        else:
            candidate.close()
    return listening


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


_log = logging.getLogger("estimator_kit")

# Seconds that a ps waits, after the training, for trainers that have not left yet.
_LAST_GUESTS = 15.0

# Seconds that a ps waits, after SIGTERM, for trainers that may still save its variables.
_LAST_SAVES = 20.0

# Seconds that the host name of a task has to become known.
_NAME = 30.0

# Keeps the servers alive until the process ends; a garbage-collected server would stop.
STARTED: list[Any] = []


def start(program: Program, cluster: Cluster, view: ClusterView, session: Any = None) -> Any:
    """Starts the server of this task, and restricts it to its address.

    Args:
      command: the training.
      view: this task in its cluster.
      session: the ConfigProto of its sessions; by default the one from the flags.

    Raises:
      ConfigError: the port is in use, or the address does not belong to this machine.
    """
    assert view.address is not None
    only: list[Address] = []
    if not cluster.listen_on_all_interfaces:
        only = _own_addresses(view, min(_NAME, cluster.cluster_timeout_secs))
    session = session if session is not None else session_config(program, cluster)
    if view.task_type == "ps":
        session.device_count["GPU"] = 0  # A ps stores variables in memory and needs no GPU.
    try:
        server = tf.distribute.Server(
            tf.train.ClusterSpec(view.cluster_dict()),
            job_name=view.task_type,
            task_index=view.task_index,
            config=session,
        )
    except tf.errors.OpError as error:
        raise ConfigError(
            f"{view.name} cannot listen at its address {view.address} "
            f"({str(error).splitlines()[0]}). Check whether another process uses the port."
        ) from error
    if only:
        keep_to(only, int(view.address.rpartition(":")[2]))
    STARTED.append(server)
    return server


def _own_addresses(view: ClusterView, seconds: float) -> list[Address]:
    """The addresses of this task. Waits for its host name, since a pod's name may come late."""
    assert view.address is not None
    end, said = time.monotonic() + seconds, False
    while True:
        try:
            return own_addresses(view.address, [host for _, host in view.tasks()])
        except ConfigError as error:
            if is_number(view.address) or time.monotonic() >= end:
                raise
            if not said:
                said = True
                _log.warning("%s; trying again for %g seconds", error, seconds)
            threading.Event().wait(1)


def run_ps(command: Train, spec: FeatureSpec, view: ClusterView) -> RunResult:
    """Serves its variables until training is over.

    Raises:
      Stopped: the process received SIGTERM.
      tf.errors.UnavailableError: the chief was stopped, or could not be reached for
        --cluster_timeout_secs.
    """
    request = StopRequest()
    start(command.program, command.cluster, view)
    with (
        stop_on_sigterm(request),
        Watch(
            view,
            Marks(command.run.model_dir),
            seconds=command.cluster.cluster_timeout_secs,
            goal=goal_of(command.settings, spec),
            workers_needed=needs_all_workers(command.cluster),
        ) as watch,
    ):
        trainers = [host for name, host in view.tasks() if not name.startswith("ps:")]
        while not watch.over() and request.reason != SIGTERM:
            threading.Event().wait(0.5)
        end = time.monotonic() + (_LAST_GUESTS if watch.over() else _LAST_SAVES)
        while time.monotonic() < end and any(reachable(host) for host in trainers):
            if watch.over() and request.reason == SIGTERM:
                break
            threading.Event().wait(0.5)
    if request.reason == SIGTERM:
        raise Stopped(f"{view.name} was stopped by SIGTERM")
    watch.check()
    return RunResult(mode=command.program.mode, task=view.name)
