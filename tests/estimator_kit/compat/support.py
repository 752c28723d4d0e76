"""Processes for tests: each has a time limit, and ends with its test."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).resolve().parents[3]
TASKS = "tests.estimator_kit.compat.tasks"

# On a busy machine a task of a cluster takes up to a minute to start.
LIMIT_S = 240.0


def environment(changes: Optional[Mapping[str, Optional[str]]] = None) -> dict[str, str]:
    """The environment of a fresh process: no legacy Keras, no TF_CONFIG, the package on the path.

    Args:
      changes: variables to set, or to remove with None.
    """
    result = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    for name in ("TF_USE_LEGACY_KERAS", "TF_CONFIG"):
        result.pop(name, None)
    for name, value in (changes or {}).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def run_code(code: str, **variables: Optional[str]) -> str:
    """Runs Python code in a fresh process, and returns its stdout. Fails the test if it fails."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip()


def free_ports(count: int) -> list[int]:
    """`count` different free ports of the loopback interface."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Task:
    """A running Python process that logs to a file."""

    def __init__(self, name: str, command: list[str], env: dict[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("w") as out:
            self.process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT)

    def wait(self, deadline: float) -> None:
        """Waits for exit status 0.

        Args:
          deadline: on time.monotonic's clock.
        """
        try:
            status: Any = self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = "still running at the time limit"
        assert status == 0, f"{self.name}: {status}\n{self.log.read_text()[-6000:]}"

    def kill(self) -> None:
        """Sends SIGKILL, in any state of the process."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def tasks(directory: Path) -> Iterator[Any]:
    """Gives a function that starts modules of `tasks/`; kills all that it started at the end.

    The function takes (name, script, *arguments, variables={...}) and returns a `Task`.
    """
    started: list[Task] = []

    def start(
        name: str, script: str, *arguments: object, variables: Optional[dict[str, str]] = None
    ) -> Task:
        command = [sys.executable, "-m", f"{TASKS}.{script}", *map(str, arguments)]
        log = directory / f"{name}-{len(started)}.log"
        started.append(Task(name, command, environment(variables), log))
        return started[-1]

    try:
        yield start
    finally:
        for task in started:
            task.kill()


def steps_of(directory: Path) -> int:
    """The step of the latest checkpoint in a model_dir, or 0. Does not import TensorFlow."""
    state = directory / "checkpoint"
    if not state.exists():
        return 0
    match = re.search(r'^model_checkpoint_path: ".*?-(\d+)"', state.read_text(), re.MULTILINE)
    return int(match[1]) if match else 0
