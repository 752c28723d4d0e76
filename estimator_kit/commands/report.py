"""`--mode=report`: the report page of a training or of a retraining, or a comparison."""

from __future__ import annotations

from collections.abc import Callable

from estimator_kit.config.modes import Report
from estimator_kit.errors import ConfigError
from estimator_kit.observing.page import page
from estimator_kit.result import RunResult
from estimator_kit.retraining import cycle_files, notices


def run(command: Report, tell: Callable[[str], None]) -> RunResult:
    """Writes the page from the numbers that runs have written. Trains and evaluates nothing.

    Raises:
      ConfigError: a package is missing, or a directory holds no training.
    """
    compare = command.looking.compare
    if compare:
        if len(compare) < 2:
            raise ConfigError(
                f"--compare: expected two or more model directories, got {compare[0]!r}."
            )
        path = page.write_comparison(compare)
    else:
        assert command.run.model_dir is not None
        write = notices.write_pages if cycle_files.cycles(command.run.model_dir) else page.write
        path = write(command.run.model_dir)
    tell(f"report: {path}")
    return RunResult(mode=command.program.mode)
