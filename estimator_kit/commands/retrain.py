"""`--mode=retrain` and `rollback`: scheduled retraining."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Optional

from estimator_kit.commands.services import Services
from estimator_kit.config.experiment_config import ExperimentConfig, complete
from estimator_kit.config.mode_configs import (
    ReproduceConfig,
    RetrainConfig,
    RollbackConfig,
)
from estimator_kit.observing.page import page
from estimator_kit.result import RunResult
from estimator_kit.retraining import cycle, modes, notices, stages, state
from estimator_kit.retraining.cycle_report import Report


def run(config: ExperimentConfig, tell: Callable[[str], None]) -> RunResult:
    """Runs a cycle, trains an earlier one again, or makes an earlier version live.

    It raises the errors of `retraining.cycle.run` and of `retraining.modes`.
    """
    if config.mode == "rollback":
        tell(_roll_back(complete(config, RollbackConfig)))
    elif config.cycle is not None:
        tell(modes.reproduce(complete(config, ReproduceConfig)))
    else:
        return _retrain(complete(config, RetrainConfig), tell)
    return RunResult(mode=config.mode)


def _roll_back(config: RollbackConfig) -> str:
    """A rollback. It also brings an existing history page up to date."""
    services = Services(config)
    text = modes.roll_back(config)
    live = stages.serving_of(config).live
    assert live is not None
    services.live(live.number, live.path)
    if not os.path.exists(os.path.join(config.model_dir, page.HISTORY)):
        return text
    return (
        f"{text}\n{page.attempt(lambda: notices.write_pages(config.model_dir, config.serving_dir))}"
    )


def _retrain(config: RetrainConfig, tell: Callable[[str], None]) -> RunResult:
    """One cycle; however it ends, the pages and the tracking service show it."""
    services = Services(config)
    before = _newest(config.model_dir)
    try:
        result, text = cycle.run(config)
        tell(text)
        return result
    finally:
        if config.report == "on":
            line = page.attempt(lambda: notices.write_pages(config.model_dir, config.serving_dir))
            # The status tells how the cycle ended, also if nobody reads standard output.
            with contextlib.suppress(BrokenPipeError):
                tell(line)
        folder, found = _newest(config.model_dir)
        if folder is not None and found is not None and (folder, found) != before:
            services.cycle(state.find(config.model_dir, folder), found)


def _newest(model_dir: str) -> tuple[Optional[str], Optional[Report]]:
    """The name of the newest cycle, and its report if it has written one."""
    cycles = state.cycles(model_dir)
    return (cycles[-1].name, cycles[-1].load(Report)) if cycles else (None, None)
