"""Which settings go together in a training. Imports no TensorFlow."""

from __future__ import annotations

import re

from estimator_kit.config.modes import TRAINING_MODES
from estimator_kit.config.patterns import pattern_problem
from estimator_kit.config.settings import AllSettings
from estimator_kit.config.settings.exports import compare_best_metric

# The characters that have a meaning in a pattern of TensorFlow.
_WILDCARDS = "*?[\\"


def problems(config: AllSettings) -> list[str]:
    """What does not go together in the length, the checkpoints and the start of a training."""
    found = []
    for field in ("model_dir", "warm_start_from"):
        path = getattr(config, field)
        if path is not None and set(path) & set(_WILDCARDS):
            found.append(
                f"--{field}: expected a path without {' '.join(_WILDCARDS)}, got {path!r}. "
                "TensorFlow reads the path of a checkpoint as a pattern, and does not find it. "
                "Rename the folder."
            )
    if config.mode in (*TRAINING_MODES, "retrain") and not (config.max_steps or config.epochs):
        found.append(
            "--max_steps and --epochs are missing. Give at least one of them, so that training "
            "ends."
        )
    if config.save_checkpoints_steps is not None and config.save_checkpoints_secs is not None:
        found.append(
            "--save_checkpoints_steps and --save_checkpoints_secs do not go together. Give one of "
            "them."
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]*", config.eval_name):
        found.append(
            "--eval_name: expected letters, digits, _, - and ., because files get this name, "
            f"got {config.eval_name!r}."
        )
    by_clock = config.deterministic and config.save_checkpoints_steps is None
    if by_clock and config.early_stopping_metric is not None:
        found.append(
            "--deterministic with --early_stopping_metric needs --save_checkpoints_steps. "
            "Checkpoints that are saved by the clock would stop each training at another step."
        )
    return found + _warm_start_problems(config) + _direction_problems(config)


def _warm_start_problems(config: AllSettings) -> list[str]:
    found = []
    problem = pattern_problem(config.warm_start_vars)
    if problem is not None:
        found.append(f"--warm_start_vars: {problem}")
    for rename in config.warm_start_rename:
        old, _, new = rename.rpartition("=")
        if not old or not new:
            found.append(f"--warm_start_rename: expected old=new, got {rename!r}.")
            continue
        problem = pattern_problem(old)
        if problem is not None:
            found.append(f"--warm_start_rename: {problem}")
    return found


def _direction_problems(config: AllSettings) -> list[str]:
    """Metrics whose better direction is not given; a loss needs none, because lower is better."""
    watched = {"early_stopping": config.early_stopping_metric}
    if compare_best_metric(config.exporters):
        watched["best"] = config.best_metric
    return [
        f"--{what}_direction is missing. Say whether a better {metric} is lower (min) or higher "
        "(max)."
        for what, metric in watched.items()
        if metric is not None
        and metric.partition("/")[0] != "loss"
        and getattr(config, f"{what}_direction") is None
    ]
