"""`--mode=monitor`: what live versions answered, period by period, with labels that come later."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from estimator_kit.config.modes import Monitor
from estimator_kit.errors import RollBack
from estimator_kit.monitoring import monitor, notices, results
from estimator_kit.monitoring.monitor import Outcome
from estimator_kit.observing import prometheus
from estimator_kit.observing.page import page
from estimator_kit.result import RunResult
from feature_specs.errors import counted


def run(command: Monitor, tell: Callable[[str], None]) -> RunResult:
    """Measures periods, and writes `monitor.json`, `monitor.html` and metrics for Prometheus.

    Raises:
      RollBack: the live version breaks a condition that says so, and it stays live.
      ConfigError, SpecError, DataError, Locked: see `monitoring.monitor.run`.
    """
    path, model_dir = command.watching.prometheus_file, command.run.model_dir
    if path is not None:
        prometheus.check(path)
    outcome = monitor.run(command, now=time.time())
    if path is not None:
        prometheus.write(path, notices.prometheus_text(outcome.report, model_dir=model_dir))
    tell(_text(outcome, os.path.join(model_dir, results.REPORT)))
    if command.watching.report == "on":
        line = page.attempt(lambda: notices.write_page(model_dir, outcome.report))
        # The status tells how the command ended, also if nobody reads standard output.
        with contextlib.suppress(BrokenPipeError):
            tell(line)
    if outcome.why_not:
        reasons = [f for f in outcome.report.findings if f.broken and f.then == "roll_back"]
        lines = [f"version {outcome.report.live} should be rolled back: {outcome.why_not}"]
        raise RollBack("\n".join([*lines, *(finding.sentence for finding in reasons)]))
    return RunResult(mode=command.program.mode)


def _text(outcome: Outcome, path: str) -> str:
    """What a person should know, in a few lines."""
    report = outcome.report
    measured = ", ".join(outcome.measured[-3:])
    more = f"{len(outcome.measured) - 3} more and " if len(outcome.measured) > 3 else ""
    what = f"measured {more}{measured}" if measured else "nothing is new"
    lines = [f"{counted(len(report.periods), 'period')} in {path}; {what}"]
    lines += [finding.sentence for finding in report.findings]
    lines += [f"{count:,} {reason} were not read" for reason, count in report.not_read.items()]
    lines += [f"left out: {why}" for why in report.left_out.values()]
    made = outcome.rolled_back
    if made is not None:
        lines.append(
            f"version {made.number} is live. It is a copy of version {made.rollback_of}, and "
            f"replaces version {made.rejected}."
        )
    return "\n".join(lines)
