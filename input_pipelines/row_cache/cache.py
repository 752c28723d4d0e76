"""The cache of transformed rows, as an input_fn uses it.

    with RowCache("/ssd/rows", limit=20 * 2**30) as cache:
        rows = cache.rows(spec, files)          # Transforms the files that are not cached yet.
        blocks = rows.blocks(interleaved=True)  # Packed rows, block by block.
        batches = blocks.rebatch(512).map(rows.layout.unpack)

`rows` can be called anywhere, also while an Estimator builds a graph, because it works eagerly in
separate threads. It never returns old rows of a file that has changed. If a file changes while the
run reads from the cache, the run does not notice.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError, cores
from input_pipelines.reading.negatives import Negatives
from input_pipelines.reading.selection import Selection
from input_pipelines.reading.shuffling import OneEpoch
from input_pipelines.reading.sources import Cut, Files
from input_pipelines.record_files.sharding import Shard
from input_pipelines.record_files.tfrecords import NO_DAMAGE, Damaged
from input_pipelines.row_cache import folder, shards
from input_pipelines.row_cache.folder import CacheFolder, CacheFull, Digests
from input_pipelines.row_cache.shards import RowLayout
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass(frozen=True)
class CachedRows:
    """The rows of some files, packed.

    Attributes:
      paths: the cached shards, in the order of the files.
      layout: how their rows are packed.
    """

    paths: tuple[str, ...]
    layout: RowLayout

    def blocks(self, *, interleaved: bool) -> tf.data.Dataset:
        """Packed blocks of rows: the same rows in the same order as without the cache."""
        return shards.read(self.paths, self.layout, interleaved=interleaved)


@dataclasses.dataclass
class CacheCounts:
    """What a run found in the cache, for result.json.

    Attributes:
      hits: shards that were in the cache.
      misses: shards that were not in the cache and were transformed.
      rows: the rows of the shards that were transformed.
      evicted: shards that were removed to make room.
      seconds: the time for searching and transforming.
    """

    hits: int = 0
    misses: int = 0
    rows: int = 0
    evicted: int = 0
    seconds: float = 0.0


class RowCache:
    """One run's use of a cache folder.

    Args:
      folder: a folder on a local disk; created if it does not exist.
      limit: the most bytes of all cached shards together. Shards that were used longest ago are
        removed first.
      check: called now and then while rows are transformed. It stops the work by raising an error.
      on_progress: called with the number of rows that were transformed since the last call, of
        files that are done, and of files to do. Calls never overlap.

    Attributes:
      counts: what was found in the cache.

    Raises:
      DataError: the folder cannot be used.
    """

    def __init__(
        self,
        folder: str,
        *,
        limit: int,
        check: Optional[Callable[[], None]] = None,
        on_progress: Callable[[int, int, int], None] = lambda rows, done, files: None,
    ):
        self.counts = CacheCounts()
        self._on_progress = on_progress
        self._check = check or (lambda: None)
        self._name = folder
        self._used: dict[str, str] = {}
        self._rows_by_key: dict[Any, CachedRows] = {}
        self._lock = threading.Lock()
        try:
            self._folder = CacheFolder(folder, limit=limit)
            self._digests = Digests(self._folder.path / ".digests")
        except OSError as error:
            raise DataError(
                f"the input cache {folder}: {error.filename}: {error.strerror}. Name a writable "
                "folder on a local disk"
            ) from error

    def rows(
        self,
        spec: FeatureSpec,
        files: Sequence[str],
        shard: Shard = Shard(),
        *,
        damaged: Damaged = NO_DAMAGE,
    ) -> CachedRows:
        """The rows of files that pass the spec's `filter`. Transforms files that are not cached.

        Args:
          spec: the feature spec.
          files: TFRecord files.
          shard: which records of each file are read.
          damaged: the files of which only the good records are read.

        Raises:
          DataError: the cache is full, or cannot be written.
          ValueError: rows of the spec cannot be cached; see `RowLayout`.
          tf.errors.OpError: a record is bad; the same error as without the cache.
        """
        key = (folder.of_rows(spec), tuple(files), shard, tuple(sorted(damaged.items())))
        with self._lock:
            if key not in self._rows_by_key:
                self._rows_by_key[key] = self._rows(spec, files, shard, damaged)
            return self._rows_by_key[key]

    def _rows(
        self, spec: FeatureSpec, files: Sequence[str], shard: Shard, damaged: Damaged
    ) -> CachedRows:
        begin = time.monotonic()
        # A new thread executes eagerly, even if this thread is building a graph.
        with ThreadPoolExecutor(1) as thread:
            maker = thread.submit(_Maker, spec, shard, damaged, self._digests).result()
        with ThreadPoolExecutor(cores()) as threads:
            keys_and_entries = list(threads.map(lambda path: self._find(maker, path), files))
            missing = {
                path: key for path, (key, entry) in zip(files, keys_and_entries) if entry is None
            }
            if missing:
                _log.info(
                    "input cache: %d of %d files are cached; transforming the other %d",
                    len(files) - len(missing),
                    len(files),
                    len(missing),
                )
            progress = _Progress(len(missing), self._on_progress)
            count = min(cores(), len(missing))
            parts = [dict(list(missing.items())[i::count]) for i in range(count)]
            new_paths: dict[str, str] = {}
            try:
                for some in threads.map(lambda part: self._row_paths(maker, part, progress), parts):
                    new_paths.update(some)
            except BaseException:
                progress.stopped = True
                raise
        paths = [entry or new_paths[path] for path, (_, entry) in zip(files, keys_and_entries)]
        self.counts.hits += len(files) - len(missing)
        self.counts.misses += len(missing)
        self.counts.rows += progress.rows
        self.counts.evicted = self._folder.evicted
        self.counts.seconds += time.monotonic() - begin
        self._used.update(zip(paths, files))
        return CachedRows(tuple(paths), maker.layout)

    def remove_damaged(self) -> Optional[str]:
        """Call this after a read error. Returns a sentence if a cached shard was damaged.

        Removes the damaged shard, so that the next start writes it again.
        """
        for path, source in self._used.items():
            if not shards.is_whole(path):
                self._folder.remove(path)
                return (
                    f"{path}, the cached rows of {source}, was damaged or removed. The kit removed "
                    "the rest of it. Start again, and check the disk"
                )
        return None

    def close(self) -> None:
        """Allows other runs to remove the shards that this run used. May be called twice."""
        self._folder.close()

    def __enter__(self) -> RowCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _find(self, maker: _Maker, path: str) -> tuple[str, Optional[str]]:
        self._check()
        try:
            key = maker.key(path)  # This writes the digest into the folder.
            return key, self._folder.find(key)
        except OSError as error:
            raise self._cannot_use(error) from error

    def _row_paths(
        self, maker: _Maker, keys: Mapping[str, str], progress: _Progress
    ) -> dict[str, str]:
        """Transforms the files in `keys`, and returns the path of each file's rows."""
        row_paths: dict[str, str] = {}

        def add(path: str, blocks: Iterable[list[np.ndarray]]) -> None:
            def write(unfinished: str) -> None:
                before = 0
                for rows in shards.write(unfinished, blocks, layout=maker.layout):
                    self._check()
                    progress.add(rows - before)
                    before = rows
                if maker.key(path) != keys[path]:
                    raise DataError(
                        f"{path} changed while its rows were transformed for the input cache. "
                        "Start again when the file is complete"
                    )
                progress.done()

            row_paths[path] = self._folder.add(keys[path], write)

        try:
            for path, blocks in maker.packed_by_file(list(keys)):
                add(path, blocks)
            for path in keys:
                if path not in row_paths:
                    add(path, [])  # The file has no records.
        except CacheFull as error:
            raise DataError(
                f"the input cache {self._name} is too small: {error}. Allow more "
                "(--input_cache_gib), or train without a cache"
            ) from error
        except (OSError, tf.errors.ResourceExhaustedError) as error:
            raise self._cannot_use(error) from error
        return row_paths

    def _cannot_use(self, error: Exception) -> DataError:
        if not isinstance(error, OSError) or error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DataError(
                f"the disk of the input cache {self._name} is full. Free some space, lower the "
                "limit of the cache (--input_cache_gib), or train without a cache"
            )
        return DataError(f"the input cache {self._name} cannot be used: {error}")


@dataclasses.dataclass(frozen=True)
class Cached(Files):
    """A source that reads the rows of files from a cache, in the same batches as from the files.

    Only the last bit of a logarithm can differ: in TensorFlow it depends on a row's place in its
    batch.

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
        rows = self._rows(paths, records)
        return lambda _: rows.blocks(interleaved=self.shuffle)

    def reader(self, shard: Shard) -> Callable[..., Any]:
        return self._rows(*self.deal(self.files, shard)).layout.unpack

    def _rows(self, paths: Sequence[str], records: Shard) -> CachedRows:
        assert self.cache is not None
        return self.cache.rows(self.spec, paths, records, damaged=self.damaged)


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


class _Maker:
    """Computes the keys and rows of files. Make it where TensorFlow executes eagerly."""

    def __init__(self, spec: FeatureSpec, shard: Shard, damaged: Damaged, file_digests: Digests):
        self._digests = file_digests
        self._rows = folder.of_rows(spec)
        self._shard = shard
        self._damaged = damaged
        self._selection = Selection(spec)
        self._transform = Transform(spec)
        self.layout = RowLayout.of(spec, self._transform)
        if folder.of_rows(spec) != self._rows:
            raise DataError("a vocabulary file of the spec changed while it was read. Start again")

    def key(self, path: str) -> str:
        # A file that is known to be damaged is read in another way, even if no record is skipped.
        left_out = self._damaged.get(path)
        content = self._digests.of(path)
        return folder.of_shard(self._rows, path, content, self._shard, left_out)

    def packed_by_file(
        self, files: Sequence[str]
    ) -> Iterator[tuple[str, Iterator[list[np.ndarray]]]]:
        return shards.packed_by_file(
            files,
            selection=self._selection,
            shard=self._shard,
            damaged={path: self._damaged[path] for path in files if path in self._damaged},
            pack=lambda block: self.layout.pack(*self._transform.features_and_labels(block)),
            layout=self.layout,
        )


class _Progress:
    """Counts the rows that several threads transform, and reports them."""

    def __init__(self, files: int, report: Callable[[int, int, int], None]):
        self.rows = 0
        self.stopped = False
        self._files = files
        self._report = report
        self._done = 0
        self._lock = threading.Lock()

    def add(self, rows: int) -> None:
        with self._lock:
            if self.stopped:
                raise _Ended
            self.rows += rows
            self._report(rows, self._done, self._files)

    def done(self) -> None:
        with self._lock:
            self._done += 1
            self._report(0, self._done, self._files)


class _Ended(Exception):
    """Another file could not be transformed."""
