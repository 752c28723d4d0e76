"""What each `--mode` does: a module for each; `config.modes` is the table of them.

    run(config, tell) -> RunResult      of each module; `tell` takes what a person should read

`run.py` and `ek.run` both go through `run` below.
"""

from __future__ import annotations

import importlib
import logging
import typing
from collections.abc import Callable

from estimator_kit.config.experiment_config import ExperimentConfig, complete
from estimator_kit.config.modes import MODES
from estimator_kit.result import RunResult

_log = logging.getLogger("estimator_kit")


def run(config: ExperimentConfig, tell: Callable[[str], None] = _log.info) -> RunResult:
    """Does what `config.mode` says.

    Args:
      config: what to do.
      tell: is called with each text for a person; by default texts are logged.

    Raises:
      SpecError, ConfigError: something in the config or spec cannot be used; nothing was written.
      DataError, LossError: the data cannot be trained on.
      NothingToDo, Stopped: see `training.run`.
    """
    mode = MODES[config.mode]
    if mode.estimators:
        importlib.import_module("estimator_kit.compat")  # Before TensorFlow: which Keras.
    module = importlib.import_module(f"estimator_kit.commands.{mode.module}")
    kind = typing.get_type_hints(module.run)["config"]
    return module.run(complete(config, kind), tell)
