"""`--mode=retrain`, `rollback` and `promote`: scheduled retraining."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Optional, Union

from estimator_kit.commands.services import Services
from estimator_kit.config.modes import OfCycle, Promote, Retrain, Rollback
from estimator_kit.observing.page import page
from estimator_kit.result import RunResult
from estimator_kit.retraining import (
    canaries,
    cycle,
    cycle_files,
    modes,
    notices,
    stages,
    watch_workers,
    watching,
)
from estimator_kit.retraining.cycle_report import Report

# The first cycle of a process takes about a second longer, and a process grows by some 30 MiB a
# cycle: benchmarks/freshness.py.
_CYCLES_OF_A_WORKER = 20


def run(command: Union[Retrain, Rollback], tell: Callable[[str], None]) -> RunResult:
    """Runs a cycle or many, trains an earlier one again, or makes another version live.

    It raises the errors of `retraining.cycle.run` and of `retraining.modes`.
    """
    if isinstance(command, Rollback):
        tell(_make_live(command))
    elif command.retraining.cycle is not None:
        tell(modes.reproduce(command.run, OfCycle.of(command.retraining)))
    elif command.retraining.watch:
        _watch(command, tell)
    else:
        return _retrain(command, tell)
    return RunResult(mode=command.program.mode)


def _watch(command: Retrain, tell: Callable[[str], None]) -> None:
    """Cycles until a signal comes."""

    def work() -> bool:
        return watching.watch(
            lambda: _retrain(command, tell),
            lambda: cycle.look(command),
            most=_CYCLES_OF_A_WORKER,
        )

    watch_workers.in_workers(work)


def _make_live(command: Rollback) -> str:
    """A rollback, or the promotion of a canary. It also updates an existing history page."""
    services = Services(command.program, command.run, command.watching)
    make_live = canaries.promote if isinstance(command, Promote) else modes.roll_back
    text = make_live(command.run, command.retraining)
    live = stages.serving_of(command.run, command.retraining).live
    assert live is not None
    services.live(live.number, live.path)
    if not os.path.exists(os.path.join(command.run.model_dir, page.HISTORY)):
        return text
    folder, serving_dir = command.run.model_dir, command.retraining.serving_dir
    return f"{text}\n{page.attempt(lambda: notices.write_pages(folder, serving_dir))}"


def _retrain(command: Retrain, tell: Callable[[str], None]) -> RunResult:
    """One cycle; however it ends, the pages and the tracking service show it."""
    services = Services(command.program, command.run, command.watching)
    before = _newest(command.run.model_dir)
    try:
        result, text = cycle.run(command)
        tell(text)
        return result
    finally:
        if command.watching.report == "on":
            line = page.attempt(
                lambda: notices.write_pages(command.run.model_dir, command.retraining.serving_dir)
            )
            # The status tells how the cycle ended, also if nobody reads standard output.
            with contextlib.suppress(BrokenPipeError):
                tell(line)
        folder, report = _newest(command.run.model_dir)
        if folder is not None and report is not None and (folder, report) != before:
            services.cycle(cycle_files.find(command.run.model_dir, folder), report)


def _newest(model_dir: str) -> tuple[Optional[str], Optional[Report]]:
    """The name of the newest cycle, and its report if it has written one."""
    cycles = cycle_files.cycles(model_dir)
    return (cycles[-1].name, cycles[-1].load(Report)) if cycles else (None, None)
