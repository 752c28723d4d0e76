"""`--mode=serve`: serves gRPC and REST, for development."""

from __future__ import annotations

from collections.abc import Callable

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.result import RunResult
from estimator_kit.serving import server


def run(config: ExperimentConfig, tell: Callable[[str], None]) -> RunResult:
    """Serves until SIGTERM or Ctrl-C; see `serving.server.serve`."""
    server.serve(config, tell)
    return RunResult(mode=config.mode)
