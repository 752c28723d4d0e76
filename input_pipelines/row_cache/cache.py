"""The cache of transformed rows, as an input_fn uses it.

    with RowCache("/ssd/rows", limit=20 * 2**30) as cache:
        rows = cache.rows(spec)
        blocks = rows.blocks(files, interleaved=True)   # Packed rows, block by block.
        batches = blocks.rebatch(512).map(rows.layout.unpack)

Each time that a file is opened, its rows come from the cache if they are there. Otherwise they are
transformed, and stored during the training (`writer`). A run never waits or fails because its rows
cannot be stored. Either way the rows come in the
same blocks, and have the same bits. Old rows of a file that has changed are never returned. If a
file changes while the run reads from the cache, the run does not notice.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading.negatives import Negatives
from input_pipelines.reading.shuffling import OneEpoch
from input_pipelines.reading.sources import Cut, Files
from input_pipelines.record_files.sharding import Shard
from input_pipelines.row_cache import folder, shards
from input_pipelines.row_cache.folder import CacheFolder, Digests
from input_pipelines.row_cache.rows import CachedRows
from input_pipelines.row_cache.writer import Block, ShardWriter

_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass
class CacheCounts:
    """What a run found in the cache, for result.json.

    Attributes:
      hits: files whose rows were in the cache.
      misses: files whose rows were transformed.
      rows: the rows that were stored.
      evicted: shards that were removed to make room, or because nobody had used them for long.
    """

    hits: int = 0
    misses: int = 0
    rows: int = 0
    evicted: int = 0


class RowCache:
    """One run's use of a cache folder.

    Args:
      folder: a folder on a local disk; created if it does not exist.
      limit: the most bytes of all cached shards together. Shards that were used longest ago are
        removed first.

    Attributes:
      folder: the folder.
      counts: what was found in the cache.

    Raises:
      DataError: the folder cannot be used.
    """

    def __init__(self, folder: str, *, limit: int):
        self.counts = CacheCounts()
        self.folder = folder
        self._limit = limit
        self._used: dict[str, str] = {}
        self._files: dict[tuple[str, str], bool] = {}  # Whether rows were in the cache at first.
        self._rows: dict[str, CachedRows] = {}
        self._lock = threading.Lock()
        self._warned = False
        try:
            self._folder = CacheFolder(folder, limit=limit)
            self._digests = Digests(self._folder.path / ".digests")
        except OSError as error:
            raise DataError(
                f"the input cache {folder}: {error.filename}: {error.strerror}. Name a writable "
                "folder on a local disk"
            ) from error

    def rows(self, spec: FeatureSpec) -> CachedRows:
        """The rows of a spec's `filter`, transformed and packed.

        Raises:
          ValueError: rows of the spec cannot be cached; see `RowLayout`.
        """
        check_cacheable(spec)
        of_rows = folder.of_rows(spec)
        with self._lock:
            if of_rows not in self._rows:
                self._rows[of_rows] = CachedRows(self, spec, of_rows)
            return self._rows[of_rows]

    def remove_damaged(self) -> Optional[str]:
        """Call this after a read error. Returns a sentence if a cached shard was damaged.

        Removes the damaged shard, so that the next start writes it again.
        """
        for path, source in list(self._used.items()):
            if not shards.is_whole(path):
                self._folder.remove(path)
                return (
                    f"{path}, the cached rows of {source}, was damaged or removed. The kit removed "
                    "the rest of it. Start again, and check the disk"
                )
        return None

    def close(self) -> None:
        """Ends writing, and allows other runs to remove the shards that this run used.

        May be called twice.
        """
        for rows in self._rows.values():
            rows.writer.close()
        self._folder.close()
        self.counts.evicted = self._folder.evicted

    def __enter__(self) -> RowCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def found(self, source: str, key: str) -> Optional[str]:
        """The path of the rows of a file, or None."""
        path = self._folder.find(key)
        if path is not None and path not in self._used and not shards.is_whole(path):
            _log.warning(
                "%s, the cached rows of %s, was damaged. They are made again", path, source
            )
            self._folder.remove(path)
            path = None
        with self._lock:
            # A file whose rows this run has stored counts as what it was at first.
            self._files.setdefault((source, key), path is not None)
            self.counts.hits = sum(self._files.values())
            self.counts.misses = len(self._files) - self.counts.hits
            if path is not None:
                self._used[path] = source
        return path

    def digest(self, path: str) -> str:
        return self._digests.of(path)

    def writer(self, to_records: Callable[[Block], list[bytes]]) -> ShardWriter:
        """A writer of rows into this cache, in the records of their blocks."""
        return ShardWriter(
            self._folder,
            limit=self._limit,
            to_records=to_records,
            added=self._added,
            warn=self._warn,
        )

    def _added(self, path: str, source: str, rows: int) -> None:
        with self._lock:
            self.counts.rows += rows

    def _warn(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "input cache %s: %s. The run goes on, but stores no more transformed rows",
                self.folder,
                problem,
            )


@dataclasses.dataclass(frozen=True)
class Cached(Files):
    """A source that reads the rows of files from a cache: the same batches with the same bits.

    Raises:
      ValueError: see `check_cacheable`.
    """

    cache: Optional[RowCache] = None

    def __post_init__(self) -> None:
        check_cacheable(self.spec, negatives=self.negatives)

    @classmethod
    def of(cls, source: Files, cache: RowCache) -> Cached:
        values = {field.name: getattr(source, field.name) for field in dataclasses.fields(source)}
        return cls(**values, cache=cache)

    def open(self, paths: Sequence[str], records: Shard, cut: Cut) -> OneEpoch:
        rows = self._rows.epoch(paths, records, interleaved=self.shuffle, damaged=self.damaged)
        return lambda _: rows()

    def rest_of_epoch(
        self, paths: Sequence[str], records: Shard, epoch: int, offset: int
    ) -> Optional[tf.data.Dataset]:
        return self._rows.rest_of_epoch(
            paths, records, damaged=self.damaged,
            seed=self.seed, epoch=epoch, offset=offset, shuffle=self.shuffle,
        )  # fmt: skip

    def reader(self, shard: Shard) -> Callable[..., Any]:
        return self._rows.layout.unpack

    @property
    def _rows(self) -> CachedRows:
        assert self.cache is not None
        return self.cache.rows(self.spec)


def check_cacheable(
    spec: FeatureSpec, *, mixed: bool = False, negatives: Optional[Negatives] = None
) -> None:
    """Raises ValueError if transformed rows cannot be cached. The message says why."""
    if spec.kept_together is not None:
        raise ValueError(f"the head ranking reads rows of one {spec.kept_together!r} together")
    if mixed:
        raise ValueError("the rows of a mix (--train_mix) are taken one by one from its parts")
    if negatives is not None:
        raise ValueError("each epoch keeps different negatives (--keep_negatives)")
