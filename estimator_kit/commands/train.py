"""`--mode=train_and_evaluate` and `--mode=train`: trains a model."""

from __future__ import annotations

from collections.abc import Callable

from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.distributed import tasks
from estimator_kit.observing import report
from estimator_kit.result import RunResult
from feature_specs.parser import parser


def run(config: ModelDirConfig, tell: Callable[[str], None]) -> RunResult:
    """Trains, alone or as a task of a cluster; see `training.run`."""
    result = tasks.train(config)
    tell(report.summary(config, parser.load(config.spec), result))
    return result
