"""The cache of transformed rows of one run: `--input_cache_dir`, or a folder of the user's own.

    input_cache.check(reading, spec)
    with input_cache.opened(reading, spec) as cache:
        input_fns.eval_input_fn(spec, files, batch_size=512, cache=cache)

A folder that the user names must work, or the run does not start. Without the flag, the cache is
used where it can be and is worth its start, and the block gets None elsewhere.
`input_pipelines.row_cache` explains what a cache stores and when it is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Iterator
from typing import Any, Optional

from estimator_kit.config.areas.reading import OFF, Reading
from estimator_kit.errors import ConfigError
from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading.negatives import Negatives
from input_pipelines.row_cache.cache import RowCache, check_cacheable
from input_pipelines.row_cache.shards import RowLayout
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")

_GIB = 2**30

# The limit of a folder that the user names without --input_cache_gib; see also `default_limit`.
DEFAULT_GIB = 20

# The cache makes a start about 0.4 s longer, which is what it saves in this number of rows.
FEW_ROWS = 20_000


def check(
    reading: Reading,
    spec: FeatureSpec,
    *,
    mixed: bool = False,
    negatives: Optional[Negatives] = None,
) -> None:
    """Checks a folder that the user names, and makes it if it does not exist.

    Raises:
      ConfigError: the folder cannot be used, or a cache cannot hold the rows.
    """
    folder = reading.named_cache
    if folder is None:
        return
    if "://" in folder:
        raise ConfigError(f"--input_cache_dir: expected a folder on a local disk, got {folder!r}")
    try:
        check_cacheable(spec, mixed=mixed, negatives=negatives)
        RowLayout.of(spec, Transform(spec))
    except ValueError as error:
        raise ConfigError(f"--input_cache_dir: {error}. Remove --input_cache_dir.") from error
    try:
        RowCache(folder, limit=1).close()
    except DataError as error:
        raise ConfigError(f"--input_cache_dir: {error}") from error


@contextlib.contextmanager
def opened(
    reading: Reading,
    spec: FeatureSpec,
    *,
    mixed: bool = False,
    negatives: Optional[Negatives] = None,
    is_alone: bool = True,
    rows: Optional[int] = None,
) -> Iterator[Optional[RowCache]]:
    """Opens the cache of a run, or gives None. Logs its counts at the end.

    Args:
      reading, spec: what is read, and how.
      mixed: whether a training reads a mix.
      negatives: the negative down-sampling of a training.
      is_alone: whether this process reads all rows for itself, from files.
      rows: how many rows a training reads in all epochs. Fewer than `FEW_ROWS` are kept only in a
        folder that the user names.

    Raises:
      DataError: a folder that the user names cannot be used.
    """
    is_worth_it = is_alone and (rows is None or rows >= FEW_ROWS)
    cache = _opened(reading, spec, mixed, negatives, is_worth_it)
    if cache is None:
        yield None
        return
    try:
        yield cache
    finally:
        cache.close()
        counts = cache.counts
        _log.info(
            "input cache %s: %d files found, %d files transformed (%s rows stored), %d removed",
            cache.folder,
            counts.hits,
            counts.misses,
            f"{counts.rows:,}",
            counts.evicted,
        )


def _opened(
    reading: Reading,
    spec: FeatureSpec,
    mixed: bool,
    negatives: Optional[Negatives],
    is_worth_it: bool,
) -> Optional[RowCache]:
    if reading.named_cache is not None:
        return RowCache(reading.named_cache, limit=_limit(reading, reading.named_cache))
    if reading.input_cache_dir == OFF or not is_worth_it:
        return None
    folder = file_systems.user_cache("rows")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # The rows may be private.
        check_cacheable(spec, mixed=mixed, negatives=negatives)
        with contextlib.ExitStack() as unused:
            cache = unused.enter_context(RowCache(folder, limit=_limit(reading, folder)))
            cache.rows(spec)
            unused.pop_all()  # The caller closes it.
    except (ValueError, OSError) as error:  # A DataError is a ValueError.
        _log.info("transformed rows are not kept: %s", error)
        return None
    return cache


def _limit(reading: Reading, folder: str) -> int:
    """The most bytes in a cache folder."""
    if reading.input_cache_gib is not None:
        return int(reading.input_cache_gib * _GIB)
    if reading.named_cache is not None:
        return DEFAULT_GIB * _GIB
    kept = 0
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # Another run may remove files.
            kept += entry.stat().st_size
    return file_systems.default_limit(folder, kept)


def summary(cache: Optional[RowCache]) -> dict[str, Any]:
    """The counts of the cache for result.json."""
    return {} if cache is None else dataclasses.asdict(cache.counts)
