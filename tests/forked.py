"""Starts the program in a process that is forked from one that has imported TensorFlow.

An import of TensorFlow takes four seconds of CPU, and a test of a cluster starts up to ten tasks.
`multiprocessing` keeps one process with TensorFlow for each test process, and forks it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Optional

from estimator_kit import main
from tests.conftest import ROOT

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["estimator_kit.compat", "estimator_kit.commands.train", __name__])


class Forked:
    """`python run.py ARGUMENTS`, which appends its output to a file.

    The methods are like `subprocess.Popen`'s, but `wait` needs a timeout and raises
    TimeoutError. Kill the process before the test ends. Otherwise pytest does not exit.

    The process ends without Python's shutdown: no `atexit` function runs, and nothing can abort
    there. TensorFlow is already imported, so a variable that it reads at import has no effect. To
    test either, start a process with `subprocess`.

    Args:
      arguments: the flags.
      log: the file.
      environment: variables in addition to the test's.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: pathlib.Path,
        environment: Optional[Mapping[str, str]] = None,
    ):
        log.touch()
        variables = {**os.environ, **(environment or {})}
        self._process = _FORKS.Process(target=_run, args=(list(arguments), str(log), variables))
        self._process.start()

    @property
    def returncode(self) -> Optional[int]:
        return self._process.exitcode

    def poll(self) -> Optional[int]:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError(f"process {self._process.pid} still runs after {timeout} seconds")
        return code

    def send_signal(self, number: int) -> None:
        if self._process.is_alive():
            with contextlib.suppress(ProcessLookupError):  # It has ended since.
                os.kill(self._process.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(arguments: list[str], log: str, environment: dict[str, str]) -> None:
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    sys.argv = [str(ROOT / "run.py"), *arguments]
    main.program()
