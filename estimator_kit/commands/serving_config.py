"""`--mode=serving_config`: writes the files that TensorFlow Serving needs to start."""

from __future__ import annotations

from collections.abc import Callable

from estimator_kit.config.mode_configs import ServingFilesConfig
from estimator_kit.result import RunResult
from estimator_kit.serving import config_files


def run(config: ServingFilesConfig, tell: Callable[[str], None]) -> RunResult:
    """Writes the files; see `serving.config_files.write`."""
    tell(config_files.write(config))
    return RunResult(mode=config.mode)
