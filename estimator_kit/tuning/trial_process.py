"""One trial as a process of the program: an ordinary training with its own flagfile.

    model_dir/trials/0012/trial.flags    reruns the trial: `run.py --flagfile=...`
    model_dir/trials/0012/log.txt        what its process printed

A training that breaks, for example because its loss is NaN or the memory is full, ends its process
and nothing else. On Linux the process is forked from one that has imported TensorFlow
(`fork_server`); elsewhere it is a new one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Optional, Union

from estimator_kit import exit_codes
from estimator_kit.config.experiment_config import ModelDirConfig
from estimator_kit.config.flags import resolved_flags
from estimator_kit.distributed import launcher
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.tuning.fork_server import ForkedProcess, ForkServer
from estimator_kit.tuning.search import Outcome
from estimator_kit.tuning.search_file import Search
from feature_specs.files import documents

FLAGS, LOG = "trial.flags", "log.txt"

# Bytes at the end of the log in which the error of a trial is searched.
_END = 20_000

# A process that receives SIGTERM before its training begins has no handler for it.
_STOPPED = (exit_codes.STOPPED, -signal.SIGTERM)


@contextlib.contextmanager
def forks() -> Iterator[Optional[ForkServer]]:
    """The server of the trials of this process, which starts in the background.

    None where the system cannot end the trials with it.
    """
    if sys.platform != "linux":
        yield None
        return
    with ForkServer() as server:
        server.warm()
        yield server


class ProgramRun:
    """A process of this program.

    Args:
      config: what it does; None if the flagfile exists.
      flags: the flagfile to write.
      log: the file that gets its output.
      server: what the process is forked from. With None, it is a new one.
    """

    def __init__(
        self,
        config: Optional[ModelDirConfig],
        flags: str,
        log: str,
        server: Optional[ForkServer] = None,
    ):
        if config is not None:
            documents.write_text(flags, resolved_flags(config))
        self._log_path = log
        arguments = [f"--flagfile={flags}"]
        self._process: Union[ForkedProcess, subprocess.Popen[bytes]]
        if server is not None:
            self._process = server.start(arguments, log)
            return
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                launcher.command(arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A new process group, so the terminal sends Ctrl-C only to the search.
                start_new_session=True,
                preexec_fn=launcher.in_child(0),
            )

    def status(self) -> Optional[int]:
        """The exit status; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()

    def reason(self, code: int) -> str:
        """Why it failed."""
        return reason_of(code, self._log_path)


def reason_of(code: int, log: str) -> str:
    """Why a process failed: the error that it printed, or the signal that ended it."""
    if code < 0:
        name = signal.Signals(-code).name
        memory = " The machine may be out of memory." if code == -signal.SIGKILL else ""
        return f"{name} ended its process.{memory}"
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - _END))
        lines = file.read().decode("utf-8", "replace").splitlines()
    begins = [i for i, line in enumerate(lines) if line.startswith(("error: ", "refused: "))]
    if begins:
        return "\n".join(lines[begins[-1] :]).partition(": ")[2]
    return f"exit status {code}: {lines[-1] if lines else 'it printed nothing'}"


class TrialRun:
    """The training of a trial, for `SearchLoop`.

    Args:
      process: the process of the training.
      config: the config of the training.
      search: its metric judges the trial, by the best evaluation.
    """

    def __init__(self, process: ProgramRun, config: ModelDirConfig, search: Search):
        self._process, self._search = process, search
        self._batch_size = config.batch_size
        self._history = EvaluationHistory(config.model_dir)
        self.stop, self.kill = process.stop, process.kill

    @classmethod
    def started(
        cls,
        config: ModelDirConfig,
        search: Search,
        server: Optional[ForkServer] = None,
    ) -> TrialRun:
        """Starts the training; see `ProgramRun`."""
        flags, log = (os.path.join(config.model_dir, name) for name in (FLAGS, LOG))
        return cls(ProgramRun(config, flags, log, server), config, search)

    def evaluations(self) -> list[tuple[int, float]]:
        """The metric of each evaluation in which it is defined, with the rows before it."""
        evaluations = [
            (entry.global_step * self._batch_size, entry.metrics.get(self._search.metric))
            for entry in self._history.read()
        ]
        return [(rows, value) for rows, value in evaluations if value is not None]

    def outcome(self) -> Optional[Outcome]:
        code = self._process.status()
        if code is None:
            return None
        if code in _STOPPED:
            return Outcome("stopped")
        # If a start finds that the trial has already finished, its evaluations are on the disk.
        if code not in (exit_codes.DONE, exit_codes.NOTHING_TO_DO):
            return Outcome("failed", reason=self._process.reason(code))
        values = [value for _, value in self.evaluations()]
        if not values:
            reason = f"{self._search.metric} is undefined in all its evaluations"
            return Outcome("failed", reason=reason)
        return Outcome("done", self._search.best_of(values))
