"""`--launch_local`: a cluster on this machine, as real processes, for development.

Each task runs the same command line with its own TF_CONFIG, and the launcher prints its lines with
its name in front. The tasks use free ports of the loopback interface. SIGTERM and Ctrl-C go to the
chief, which saves a checkpoint and ends the other tasks. After 40 seconds the launcher kills the
tasks that still run, except an evaluator that writes its last exports. It does not start a failed
task again; it is not a scheduler. `--mode=tune` starts its trials with `command` and `in_child`,
too. This module does not import TensorFlow.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from estimator_kit.config.areas.cluster import Cluster, local_jobs
from estimator_kit.config.cluster import CHIEF, EVALUATOR, PS, WORKER, ClusterView
from estimator_kit.exit_codes import DONE, NOTHING_TO_DO
from estimator_kit.observing import console

_PR_SET_PDEATHSIG = 1


def command(arguments: Sequence[str]) -> list[str]:
    """The command that runs the program with these flags, as this process runs it."""
    code = (
        f"import sys; sys.argv[0] = {sys.argv[0]!r}; "
        "from estimator_kit.main import main; sys.exit(main())"
    )
    return [sys.executable, "-c", code, *arguments]


def in_child(niceness: int) -> Callable[[], None]:
    """What a new process does first: it lowers its priority, and ends when its parent ends.

    Only on Linux it ends with its parent, even if SIGKILL ends the parent.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def prepare() -> None:
        os.nice(niceness)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return prepare


# How many seconds tasks have to end after the chief.
_LEAVE = 40.0

# The nice value of tasks that train, so that the evaluator can keep up with them.
_NICENESS = 5


def views_of(jobs: Mapping[str, int], ports: Sequence[int]) -> list[ClusterView]:
    """The view of each task, in the order ps, workers, chief, evaluator.

    Args:
      jobs: the number of tasks of each job.
      ports: one port for each chief, worker and ps.
    """
    left = [f"127.0.0.1:{port}" for port in ports]
    chief, left = left[0], left[1:]
    workers, ps = tuple(left[: jobs[WORKER]]), tuple(left[jobs[WORKER] :])
    order = [(PS, i) for i in range(jobs[PS])] + [(WORKER, i) for i in range(jobs[WORKER])]
    order += [(CHIEF, 0)] + [(EVALUATOR, 0)] * jobs[EVALUATOR]
    named = ("127.0.0.1:1",) * jobs[EVALUATOR]  # No task connects to an evaluator.
    return [ClusterView(chief, workers, ps, named, job, index) for job, index in order]


def free_ports(count: int) -> list[int]:
    """`count` different free ports of the loopback interface."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def exit_status(codes: Mapping[str, int]) -> int:
    """The exit status of a launch: the chief's, or else the status of the first task that failed.

    A task that was killed by SIGKILL counts only if no other task failed. For a task that a signal
    ended, the status is 128 plus the signal's number, as in a shell.
    """
    ordered = [codes[f"{CHIEF}:0"], *(code for _, code in sorted(codes.items()))]
    failed = [code for code in ordered if code]
    failed.sort(key=lambda code: code == -signal.SIGKILL)
    return 0 if not failed else failed[0] if failed[0] > 0 else 128 - failed[0]


class _Tasks:
    """The processes of a launch."""

    def __init__(self, views: Sequence[ClusterView], arguments: Sequence[str]):
        self._ended = threading.Condition()
        self.codes: dict[str, int] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._threads: list[threading.Thread] = []
        width = max(len(view.name) for view in views)
        for view in views:
            self._start(view, arguments, width)

    def _start(self, view: ClusterView, arguments: Sequence[str], width: int) -> None:
        tf_config = view.tf_config(with_evaluators=True)
        process = subprocess.Popen(
            command([*arguments, "--launch_local="]),
            env={**os.environ, "TF_CONFIG": tf_config, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A new process group, so the terminal sends Ctrl-C only to the launcher.
            start_new_session=True,
            preexec_fn=in_child(0 if view.task_type == EVALUATOR else _NICENESS),
        )
        self._processes[view.name] = process
        thread = threading.Thread(target=self._follow, args=(view.name, process, width))
        thread.start()
        self._threads.append(thread)

    def _follow(self, name: str, process: subprocess.Popen[str], width: int) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            console.relay(name, line.rstrip("\n"), width)
        process.stdout.close()
        code = process.wait()
        console.relay(name, f"exit status {code}", width)
        with self._ended:
            self.codes[name] = code
            self._ended.notify_all()

    def running(self) -> list[str]:
        return [name for name in self._processes if name not in self.codes]

    def wait(self, seconds: float) -> None:
        """Waits until a task ends, at most `seconds`."""
        with self._ended:
            self._ended.wait(seconds)

    def send(self, name: str, number: int) -> None:
        if name in self.running():
            self._processes[name].send_signal(number)

    def close(self) -> None:
        """Kills the tasks that still run, and prints all their lines."""
        for name in self.running():
            self._processes[name].kill()
        for thread in self._threads:
            thread.join()


def launch(cluster: Cluster, arguments: Sequence[str]) -> int:
    """Runs a cluster until it ends, and returns the exit status.

    Args:
      config: `launch_local` lists the tasks.
      arguments: the flags of each task.
    """
    assert cluster.launch_local is not None
    jobs = local_jobs(cluster.launch_local)
    ports = free_ports(jobs[CHIEF] + jobs[WORKER] + jobs[PS])
    received: list[int] = []

    def note(number: int, frame: Any) -> None:
        received.append(number)

    before = {n: signal.signal(n, note) for n in (signal.SIGTERM, signal.SIGINT)}
    tasks = _Tasks(views_of(jobs, ports), arguments)
    try:
        _supervise(tasks, received, spare=_spare_workers(cluster, jobs))
    finally:
        tasks.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    return exit_status(tasks.codes)


def _spare_workers(cluster: Cluster, jobs: Mapping[str, int]) -> int:
    """How many workers may fail before the training must end. No worker is started again."""
    if not jobs[PS]:
        return 0  # An all-reduce needs every worker.
    return cluster.backup_workers if cluster.strategy == "sync_replicas" else jobs[WORKER]


def _supervise(tasks: _Tasks, received: Sequence[int], *, spare: int) -> None:
    """Waits until all tasks have ended, and kills tasks that would not end."""
    chief, passed = f"{CHIEF}:0", 0
    deadline: Optional[float] = None
    waited = 0.0
    while tasks.running():
        tasks.wait(0.2)
        waited += 0.2
        for _ in received[passed:]:
            passed += 1
            # A second SIGTERM ends the chief at once, without a checkpoint.
            tasks.send(chief, signal.SIGTERM)
        ends = chief in tasks.codes or passed > 0
        failed = [name for name, code in tasks.codes.items() if code]
        # Without its ps the training has no variables.
        ends |= any(name.startswith(PS) for name in failed)
        ends |= sum(name.startswith(WORKER) for name in failed) > spare
        if ends and deadline is None:
            deadline = waited + _LEAVE
            if chief not in tasks.codes and not passed:
                tasks.send(chief, signal.SIGTERM)
        if deadline is not None and waited >= deadline:
            done = tasks.codes.get(chief) in (DONE, NOTHING_TO_DO) and not passed
            for name in tasks.running():
                # The evaluator may take any time to score and export the last checkpoint.
                if not (done and name.startswith(EVALUATOR)):
                    tasks.send(name, signal.SIGKILL)
