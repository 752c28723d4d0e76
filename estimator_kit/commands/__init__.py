"""The modes: a module for each one; `config.modes` has their commands.

    run(command, tell) -> RunResult     in each module; `tell` takes what a person should read

`run.py` and `ek.run` both call `run` below. It prints nothing: a caller that wants output passes
`tell` and `answers`.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Optional, TextIO

from estimator_kit.commands import in_stores, in_tables
from estimator_kit.config.areas.program import TRAINING_MODES
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import MODES, command_of, module_of
from estimator_kit.errors import ConfigError
from estimator_kit.result import RunResult

_log = logging.getLogger("estimator_kit")


def load(mode: str) -> ModuleType:
    """Imports the module of a mode, and TensorFlow if the mode needs it."""
    if MODES[mode].estimators:
        importlib.import_module("estimator_kit.compat")  # Before TensorFlow: which Keras.
    try:
        return importlib.import_module(f"estimator_kit.commands.{module_of(mode)}")
    except ModuleNotFoundError as error:
        if error.name == "tensorflow":
            importlib.import_module("estimator_kit.compat")  # It says what to install.
        raise


def run(
    config: ExperimentConfig,
    tell: Callable[[str], None] = _log.info,
    *,
    answers: Optional[TextIO] = None,
) -> RunResult:
    """Does what `config.mode` says.

    Args:
      config: what to do.
      tell: is called with each text for a person; by default it logs the text.
      answers: gets the predictions or metrics for which the config names no file. By default, only
        the returned result has the metrics, and predictions need a file.

    Raises:
      SpecError, ConfigError: something in the config or spec cannot be used; nothing was written.
      DataError, LossError: the data cannot be trained on.
      NothingToDo, Stopped: see `training.run`.
    """
    mode = MODES[config.mode]
    if config.launch_local and config.mode in TRAINING_MODES:
        raise ConfigError(
            f"launch_local: ek.run trains in this process, got {config.launch_local!r}. Start a "
            "local cluster with the program, `python run.py --launch_local=...`, or remove "
            "launch_local."
        )
    module = load(config.mode)
    more: dict[str, Any] = {"answers": answers} if mode.answers else {}
    with (
        _eagerly(),
        _own_rows(config),
        in_stores.copied(config) as copied,
        in_tables.converted(copied) as local,
    ):
        result: RunResult = module.run(command_of(local), tell, **more)
        return result


def _eagerly() -> AbstractContextManager[None]:
    """`eager.kept`, unless nothing has imported TensorFlow: then nothing has changed it either."""
    if "tensorflow" not in sys.modules:
        return contextlib.nullcontext()
    eager: Any = importlib.import_module("input_pipelines.eager")
    kept: AbstractContextManager[None] = eager.kept()
    return kept


def _own_rows(config: ExperimentConfig) -> AbstractContextManager[None]:
    """`own_input.stored_until_the_end` if the config has a function of rows."""
    if config.input_fn is None or not MODES[config.mode].estimators:
        return contextlib.nullcontext()
    own_input: Any = importlib.import_module("estimator_kit.training.own_input")
    stored: AbstractContextManager[None] = own_input.stored_until_the_end()
    return stored
