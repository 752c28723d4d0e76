"""`--mode=serve`: serves gRPC and REST, for development, or writes files for TensorFlow Serving."""

from __future__ import annotations

from collections.abc import Callable

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.result import RunResult
from estimator_kit.serving import config_files, server


def run(config: ExperimentConfig, tell: Callable[[str], None]) -> RunResult:
    """Serves until SIGTERM or Ctrl-C, or writes the files if the config has a folder for them.

    See `serving.server.serve` and `serving.config_files.write`.
    """
    if config.serving_config_dir is None:
        server.serve(config, tell)
    else:
        tell(config_files.write(config))
    return RunResult(mode=config.mode)
