"""The cache of transformed rows that all trials of a search share, in the folder of the search.

Only the first trial parses and transforms the rows. The folder is removed when the search ends, and
its size has the limit of --input_cache_gib. If the user names a folder with --input_cache_dir, that
one is used and kept.
"""

from __future__ import annotations

import os
import shutil

from estimator_kit.config.modes import Tune
from estimator_kit.errors import ConfigError
from estimator_kit.training import input_cache
from estimator_kit.tuning.search_file import Search
from feature_specs.spec import FeatureSpec


def flags_of(command: Tune, search: Search, spec: FeatureSpec) -> list[str]:
    """What trials get on their command line: the cache.

    Nothing if the user names a cache, or if the rows cannot be cached. It is not in `trial.flags`,
    because a training that somebody starts later must not make the cache again.
    """
    negatives = command.settings.keep_negatives is not None or "keep_negatives" in search.parameters
    if command.reading.input_cache_dir is not None or negatives:
        return []
    folder = _folder(command.run.model_dir)
    reading = command.reading.model_copy(update={"input_cache_dir": folder})
    try:
        input_cache.check(command.program, command.data, reading, spec)
    except ConfigError:  # For example, rows of one query are read together.
        remove(command.run.model_dir)
        return []
    return [f"--input_cache_dir={folder}"]


def remove(model_dir: str) -> None:
    """Removes the cache of a search."""
    shutil.rmtree(_folder(model_dir), ignore_errors=True)


def _folder(model_dir: str) -> str:
    return os.path.join(os.path.abspath(model_dir), "cache")
