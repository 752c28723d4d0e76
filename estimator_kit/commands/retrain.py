"""`--mode=retrain`, `rollback`, `history` and `reproduce`: scheduled retraining."""

from __future__ import annotations

import os
from collections.abc import Callable

from estimator_kit.config.experiment_config import ExperimentConfig, complete
from estimator_kit.config.mode_configs import (
    ModelDirConfig,
    ReproduceConfig,
    RetrainConfig,
    RollbackConfig,
)
from estimator_kit.observing.page import page
from estimator_kit.result import RunResult
from estimator_kit.retraining import cycle, modes, pages, reproduction


def run(config: ExperimentConfig, tell: Callable[[str], None]) -> RunResult:
    """Runs one of the four modes.

    It raises the errors of `retraining.cycle.run`, `retraining.modes` and
    `retraining.reproduction`.
    """
    if config.mode == "retrain":
        return _retrain(complete(config, RetrainConfig), tell)
    if config.mode == "history":
        text = modes.history(complete(config, ModelDirConfig))
    elif config.mode == "rollback":
        text = _roll_back(complete(config, RollbackConfig))
    else:
        text = reproduction.reproduce(complete(config, ReproduceConfig))
    tell(text)
    return RunResult(mode=config.mode)


def _roll_back(config: RollbackConfig) -> str:
    """A rollback. It also brings an existing history page up to date."""
    text = modes.roll_back(config)
    if not os.path.exists(os.path.join(config.model_dir, page.HISTORY)):
        return text
    return f"{text}\n{page.attempt(lambda: pages.write(config.model_dir, config.serving_dir))}"


def _retrain(config: RetrainConfig, tell: Callable[[str], None]) -> RunResult:
    """One cycle; however it ends, the pages show it."""
    try:
        result, text = cycle.run(config)
        tell(text)
        return result
    finally:
        if config.report == "on":
            tell(page.attempt(lambda: pages.write(config.model_dir, config.serving_dir)))
