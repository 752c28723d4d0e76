"""The config of one trial: the config of the search, with the values that the trial drew.

A trial is a run of `--mode=train_and_evaluate` in its own folder. Imports no TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from estimator_kit.config.mode_configs import ModelDirConfig, TuneConfig
from estimator_kit.config.modes import settings_of

# The flags that a search may set. All other names are parameters of the model.
FLAGS = (
    "model", "batch_size", "epochs", "max_steps", "seed", "shuffle", "keep_negatives", "train_days",
    "early_stopping_patience", "warm_start_from", "warm_start_mode", "warm_start_vars",
)  # fmt: skip


def trial_dir(model_dir: str, number: int) -> str:
    """The folder of a trial, such as `runs/search/trials/0012`."""
    return os.path.join(model_dir, "trials", name_of(number))


def name_of(number: int) -> str:
    """The name of a trial: 0012."""
    return f"{number:04}"


def trial_config(config: TuneConfig, values: Mapping[str, Any], model_dir: str) -> ModelDirConfig:
    """The config of a training with the values of a trial.

    Args:
      config: the config of the search.
      values: the values of flags and of parameters of the model.
      model_dir: the folder of the training.

    Raises:
      ConfigError: a flag cannot have its value.
    """
    read = settings_of("train_and_evaluate") & settings_of("tune")
    given = config.model_dump(include=set(read))
    params = {name: value for name, value in values.items() if name not in FLAGS}
    changes = {
        **{name: value for name, value in values.items() if name in FLAGS},
        "mode": "train_and_evaluate",
        "model_dir": model_dir,
        "model_params": {**config.model_params, **params},
        "exit_code_style": "kit",
        "log_format": "text",
    }
    return ModelDirConfig(**{**given, **changes})


def evaluation_config(config: ModelDirConfig, files: tuple[str, ...], name: str) -> ModelDirConfig:
    """The config that evaluates a trial on other files."""
    read = settings_of("train_and_evaluate") & settings_of("evaluate")
    given = config.model_dump(include=set(read))
    changes = {"mode": "evaluate", "eval_files": files, "eval_days": None, "eval_steps": None}
    return ModelDirConfig(**{**given, **changes, "eval_name": name})
