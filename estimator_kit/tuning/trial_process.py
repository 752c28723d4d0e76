"""One trial as a process of the program: an ordinary training with its own flagfile.

    model_dir/trials/0012/trial.flags    reruns the trial: `run.py --flagfile=...`
    model_dir/trials/0012/log.txt        what its process printed

A training that breaks, for example because its loss is NaN or the memory is full, ends its process
and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import IO, Optional

from estimator_kit import exit_codes
from estimator_kit.config.experiment_config import ModelDirConfig
from estimator_kit.config.flags import resolved_flags
from estimator_kit.distributed import launcher
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.result import RunResult, read_result
from estimator_kit.tuning.search import Outcome
from feature_specs.files import documents

FLAGS, LOG = "trial.flags", "log.txt"

# Bytes at the end of the log in which the error of a trial is searched.
_END = 20_000

# A process that receives SIGTERM before its training begins has no handler for it.
_STOPPED = (exit_codes.STOPPED, -signal.SIGTERM)


class ProgramRun:
    """A process of this program.

    Args:
      config: what it does.
      flags: the flagfile to write.
      log: the file that gets its output.
    """

    def __init__(self, config: ModelDirConfig, flags: str, log: str):
        documents.write_text(flags, resolved_flags(config))
        self._log_path = log
        self._log: IO[bytes] = open(log, "ab")  # noqa: SIM115  # Until the process ends.
        self._process = subprocess.Popen(
            launcher.command([f"--flagfile={flags}"]),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            # A new process group, so the terminal sends Ctrl-C only to the search.
            start_new_session=True,
            preexec_fn=launcher.in_child(0),
        )

    def status(self) -> Optional[int]:
        """The exit status; None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._log.close()
        return code

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
      metric: the metric of the search.
    """

    def __init__(self, process: ProgramRun, config: ModelDirConfig, metric: str):
        self._process, self._metric = process, metric
        self._model_dir, self._batch_size = config.model_dir, config.batch_size
        self._history = EvaluationHistory(config.model_dir)
        self.stop, self.kill = process.stop, process.kill

    @classmethod
    def started(cls, config: ModelDirConfig, metric: str) -> TrialRun:
        """Starts the training."""
        flags, log = (os.path.join(config.model_dir, name) for name in (FLAGS, LOG))
        return cls(ProgramRun(config, flags, log), config, metric)

    def evaluations(self) -> list[tuple[int, float]]:
        """The metric of each evaluation in which it is defined, with the rows before it."""
        evaluations = [
            (entry.global_step * self._batch_size, entry.metrics.get(self._metric))
            for entry in self._history.read()
        ]
        return [(rows, value) for rows, value in evaluations if value is not None]

    def outcome(self) -> Optional[Outcome]:
        code = self._process.status()
        if code is None:
            return None
        if code in _STOPPED:
            return Outcome("stopped")
        # If a start finds that the trial has already finished, its result is on the disk.
        if code not in (exit_codes.DONE, exit_codes.NOTHING_TO_DO):
            return Outcome("failed", reason=self._process.reason(code))
        result = read_result(self._model_dir) or RunResult(mode="")
        value = result.metrics.get(self._metric)
        if value is None:
            return Outcome("failed", reason=f"{self._metric} is undefined in its last evaluation")
        return Outcome("done", value)
