"""Clusters of real processes on loopback for tests, with functions to start and kill tasks."""

from __future__ import annotations

import pathlib
import re
import signal
import sys
import threading
import time
from collections.abc import Callable

from estimator_kit.config.cluster import ClusterView
from estimator_kit.distributed.launcher import free_ports
from tests.forked import Forked

LIMIT = 150  # Seconds after which a process that hangs fails its test.


class Cluster:
    """The tasks of one training, each with its own log.

    Args:
      folder: the folder for logs.
      arguments: the flags of every task.
      workers, ps: the number of workers and parameter servers.
    """

    def __init__(self, folder: pathlib.Path, *arguments: str, workers: int = 1, ps: int = 1):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._arguments = folder, arguments
        hosts = [f"127.0.0.1:{port}" for port in free_ports(1 + workers + ps)]
        trainers, servers = hosts[1 : 1 + workers], hosts[1 + workers :]
        self._whole = ClusterView(hosts[0], tuple(trainers), tuple(servers))
        self.processes: dict[str, Forked] = {}
        self._all: list[tuple[str, Forked]] = []

    @property
    def ports(self) -> list[int]:
        return [int(host.rpartition(":")[2]) for _, host in self._whole.tasks()]

    def start(self, *names: str) -> None:
        """Starts tasks by name (`worker:0`). A task can be started several times."""
        for name in names:
            job, _, index = name.partition(":")
            view = ClusterView(
                self._whole.chief, self._whole.workers, self._whole.ps, (), job, int(index)
            )
            environment = {"TF_CONFIG": view.tf_config()}
            process = Forked(self._arguments, self.log(name), environment)
            self.processes[name] = process
            self._all.append((name, process))

    def log(self, name: str) -> pathlib.Path:
        return self._folder / f"{name.replace(':', '-')}.log"

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        self.processes[name].send_signal(number)
        if number == signal.SIGKILL:
            self.processes[name].wait(LIMIT)

    def wait_for(self, name: str, pattern: str) -> None:
        """Waits until the log of a task matches a pattern. Fails if the task ends before."""
        until(lambda: self._has(name, pattern), f"{pattern!r} in the log of {name}")

    def _has(self, name: str, pattern: str) -> bool:
        ended = self.processes[name].poll() is not None
        if re.search(pattern, self.log(name).read_text()):
            return True
        assert not ended, f"{name} ended with {self.processes[name].returncode}"
        return False

    def codes(self, limit: float = LIMIT) -> dict[str, int]:
        """Waits until all tasks have ended, and returns their exit statuses."""
        end = time.monotonic() + limit
        return {n: p.wait(max(0.1, end - time.monotonic())) for n, p in self.processes.items()}

    def close(self) -> None:
        """Kills the tasks that still run. If a test fails, pytest shows the logs."""
        for _, process in self._all:
            if process.poll() is None:
                process.kill()
                process.wait(LIMIT)
        for log in sorted(self._folder.iterdir()):
            print(f"--- {log.name}\n{log.read_text()[-6000:]}", file=sys.stderr)


def until(condition: Callable[[], bool], what: str, limit: float = LIMIT) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"no {what} in {limit} seconds"
        threading.Event().wait(0.05)
