"""`--mode=serve`: serves gRPC and REST, for development, or writes files for TensorFlow Serving."""

from __future__ import annotations

from collections.abc import Callable

from estimator_kit.config.modes import Serve
from estimator_kit.result import RunResult
from estimator_kit.serving import config_files, server


def run(command: Serve, tell: Callable[[str], None]) -> RunResult:
    """Serves until SIGTERM or Ctrl-C, or writes the files if the config has a folder for them.

    See `serving.server.serve` and `serving.config_files.write`.
    """
    if command.serving.serving_config_dir is None:
        server.serve(command.program, command.serving, tell)
    else:
        tell(config_files.write(command.serving))
    return RunResult(mode=command.program.mode)
