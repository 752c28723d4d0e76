"""Optuna: its import when a search first needs it, its samplers and its pruners.

Imports no TensorFlow.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import Any

from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import stored
from input_pipelines.errors import MissingPackageError


def optuna() -> Any:
    """The module `optuna`, whose log is quiet: the search writes its own lines.

    Raises:
      MissingPackageError: Optuna is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingPackageError(
            "--mode=tune needs the package optuna. Install it with "
            f"`pip install 'estimator-kit[tune]'` ({error})"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def sampler(search: Search, number: int) -> Any:
    """The sampler of a trial. Its seed differs between trials, and not between processes.

    The first trials have the values that the search names for them.
    """
    text = f"{search.seed}:{number}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    samplers = optuna().samplers
    made = {"tpe": samplers.TPESampler, "random": samplers.RandomSampler}
    base = made[search.sampler](seed=seed)
    if number >= len(search.first):
        return base
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental.
        return samplers.PartialFixedSampler(stored(search, search.first[number]), base)


def pruner(search: Search, flags: Mapping[str, Any]) -> Any:
    """The pruner of a search, whose trials have these flags."""
    pruners = optuna().pruners
    if search.pruner == "none":
        return pruners.NopPruner()
    if search.pruner == "median":
        return pruners.MedianPruner()
    # Its resources are rows: a trial has its first metric at its first checkpoint.
    rows = _smallest_batch(search, flags)
    first = rows * (flags.get("save_checkpoints_steps") or 1)
    last = rows * (flags.get("max_steps") or 0) if "batch_size" not in search.parameters else 0
    return pruners.HyperbandPruner(first, last if last > first else "auto")


def _smallest_batch(search: Search, flags: Mapping[str, Any]) -> int:
    parameter = search.parameters.get("batch_size")
    if parameter is None:
        return int(flags.get("batch_size", 1))
    return int(min(parameter.choice or parameter.span))
