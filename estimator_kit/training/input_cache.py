"""`--input_cache_dir`: the cache of transformed rows of one run.

    with input_cache.opened(config, stopped=request) as cache:
        input_fns.eval_input_fn(spec, files, batch_size=512, cache=cache)

Without the flag, the block gets None as the cache. `input_pipelines.row_cache` explains what a
cache stores and when it is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any, Optional

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.reading import Reading
from estimator_kit.errors import ConfigError, Stopped
from estimator_kit.observing.progress import ShardProgress
from estimator_kit.result import SIGTERM
from estimator_kit.training.hooks.stop import StopRequest
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading.negatives import Negatives
from input_pipelines.row_cache.cache import RowCache, check_cacheable
from input_pipelines.row_cache.shards import RowLayout
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")

# The size limit of a cache without --input_cache_gib.
DEFAULT_GIB = 20.0


def check(
    program: Program,
    data: Data,
    reading: Reading,
    spec: FeatureSpec,
    *,
    negatives: Optional[Negatives] = None,
) -> None:
    """Checks that the rows can be cached, and makes the folder if it does not exist.

    Raises:
      ConfigError: the folder cannot be used, or a cache cannot hold the rows of this config.
    """
    if not reading.input_cache_dir:
        return
    if "://" in reading.input_cache_dir:
        raise ConfigError(
            f"--input_cache_dir: expected a folder on a local disk, got {reading.input_cache_dir!r}"
        )
    try:
        # An evaluation reads no mix.
        mixed = program.mode != "evaluate" and bool(data.train_mix)
        check_cacheable(spec, mixed=mixed, negatives=negatives)
        RowLayout.of(spec, Transform(spec))
    except ValueError as error:
        raise ConfigError(f"--input_cache_dir: {error}. Remove --input_cache_dir.") from error
    try:
        RowCache(reading.input_cache_dir, limit=1).close()
    except DataError as error:
        raise ConfigError(f"--input_cache_dir: {error}") from error


@contextlib.contextmanager
def opened(
    program: Program, reading: Reading, *, stopped: Optional[StopRequest] = None
) -> Iterator[Optional[RowCache]]:
    """Opens the cache of --input_cache_dir, or gives None. Logs its counts at the end.

    Args:
      program, reading: the folder and its limit.
      stopped: on SIGTERM it makes a running transformation raise Stopped.

    Raises:
      DataError: the folder cannot be used.
    """
    if not reading.input_cache_dir:
        yield None
        return

    def look() -> None:
        if stopped is not None and stopped.reason == SIGTERM:
            raise Stopped(
                "stopped by SIGTERM while rows were transformed for --input_cache_dir. Run the "
                "same command again to transform the missing files."
            )

    gib = DEFAULT_GIB if reading.input_cache_gib is None else reading.input_cache_gib
    limit = int(gib * 2**30)
    progress = ShardProgress("input cache", "{} files", program.log_every_secs)
    folder = reading.input_cache_dir
    with RowCache(folder, limit=limit, check=look, on_progress=progress) as cache:
        try:
            yield cache
        finally:
            counts = cache.counts
            _log.info(
                "input cache: %d files found, %d files transformed (%s rows), %d files removed to "
                "free space; %.1f s",
                counts.hits,
                counts.misses,
                f"{counts.rows:,}",
                counts.evicted,
                counts.seconds,
            )


def summary(cache: Optional[RowCache]) -> dict[str, Any]:
    """The counts of the cache for result.json."""
    if cache is None:
        return {}
    counts = dataclasses.asdict(cache.counts)
    return {**counts, "seconds": round(cache.counts.seconds, 3)}
