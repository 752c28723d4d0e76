"""`--mode=retrain`, `rollback`, `history` and `reproduce`: scheduled retraining."""

from __future__ import annotations

from collections.abc import Callable

from estimator_kit.config.experiment_config import ExperimentConfig, complete
from estimator_kit.config.mode_configs import (
    ModelDirConfig,
    ReproduceConfig,
    RetrainConfig,
    RollbackConfig,
)
from estimator_kit.result import RunResult
from estimator_kit.retraining import cycle, modes, reproduction


def run(config: ExperimentConfig, tell: Callable[[str], None]) -> RunResult:
    """Runs one of the four modes.

    It raises the errors of `retraining.cycle.run`, `retraining.modes` and
    `retraining.reproduction`.
    """
    if config.mode == "retrain":
        result, text = cycle.run(complete(config, RetrainConfig))
        tell(text)
        return result
    if config.mode == "history":
        text = modes.history(complete(config, ModelDirConfig))
    elif config.mode == "rollback":
        text = modes.roll_back(complete(config, RollbackConfig))
    else:
        text = reproduction.reproduce(complete(config, ReproduceConfig))
    tell(text)
    return RunResult(mode=config.mode)
