"""The modes of retraining, each a function of its own below `retraining`.

Between them and the program, so that a mode costs only the imports it needs.
"""

from __future__ import annotations

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.result import RunResult


def run(config: ExperimentConfig) -> tuple[RunResult, str]:
    """Runs the mode of a config, and returns what it did and what to tell the user.

    Raises whatever `retraining.cycle.run`, `retraining.modes` and `retraining.reproduction` do.
    """
    if config.mode == "retrain":
        from estimator_kit.retraining import cycle

        return cycle.run(config)
    from estimator_kit.retraining import modes

    if config.mode == "history":
        return RunResult(mode=config.mode), modes.history(config)
    if config.mode == "rollback":
        return RunResult(mode=config.mode), modes.roll_back(config)
    from estimator_kit.retraining import reproduction

    return RunResult(mode=config.mode), reproduction.reproduce(config)
