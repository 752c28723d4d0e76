"""The packed rows of a spec as datasets: from the cache where they are, or from the records.

    rows = CachedRows(store, spec, folder.of_rows(spec))
    blocks = rows.blocks(files, interleaved=True)

Whether a file is in the cache is asked each time that it is opened, so a later epoch of a run reads
what the first one stored. A block that is transformed goes to the model and to the writer. Both
ways give the same blocks, of which there are as many as in the file, so the order of an epoch does
not depend on what was stored before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional, Protocol

import numpy as np
import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.eager import as_written
from input_pipelines.errors import DataError, cores
from input_pipelines.reading import rest_of_epoch
from input_pipelines.reading.rest_of_epoch import Blocks
from input_pipelines.reading.selection import Selection
from input_pipelines.reading.sources import places_of
from input_pipelines.record_files import file_lengths, tfrecords
from input_pipelines.record_files.sharding import Shard
from input_pipelines.record_files.tfrecords import NO_DAMAGE, Damaged
from input_pipelines.row_cache import folder
from input_pipelines.row_cache.shards import RowLayout, is_plain, list_bytes
from input_pipelines.row_cache.writer import NOT_WRITTEN, Block, ShardWriter
from input_pipelines.transform.transforms import Transform

# In place of the number of a shard: its rows come from the cache. (`NOT_WRITTEN`: they are
# transformed and not stored.)
_STORED = -2


class Store(Protocol):
    """What keeps rows: a `RowCache`."""

    def digest(self, path: str) -> str:
        """SHA-256 of a source file."""

    def found(self, source: str, key: str) -> Optional[str]:
        """The path of the rows of a file, or None."""

    def writer(self, to_records: Callable[[Block], list[bytes]]) -> ShardWriter:
        """A writer of more rows, in the records of their blocks."""


class CachedRows:
    """The transformed rows of a spec. `RowCache.rows` makes it.

    Args:
      cache: where they are stored.
      spec: the feature spec.
      of_rows: the hash of what turns records into its rows.

    Attributes:
      writer: stores the rows that are not in the cache.

    Raises:
      ValueError: rows of the spec cannot be cached; see `RowLayout`.
    """

    def __init__(self, cache: Store, spec: FeatureSpec, of_rows: str):
        self._cache, self._spec, self._of_rows = cache, spec, of_rows
        self._layout: Optional[RowLayout] = None
        self.writer = cache.writer(lambda block: self.layout.to_records(block))
        if not is_plain(spec):
            assert self.layout
        if folder.of_rows(spec) != of_rows:
            raise DataError("a vocabulary file of the spec changed while it was read. Start again")

    @property
    def layout(self) -> RowLayout:
        """How the rows are packed. The first dataset tells; before, rows are transformed for it."""
        if self._layout is None:
            # A new thread executes eagerly, even if this thread is building a graph.
            with ThreadPoolExecutor(1) as thread:
                made = thread.submit(lambda: RowLayout.of(self._spec, Transform(self._spec)))
            self._layout = made.result()
        return self._layout

    @as_written
    def blocks(
        self,
        files: Sequence[str],
        shard: Shard = Shard(),
        *,
        interleaved: bool,
        damaged: Damaged = NO_DAMAGE,
    ) -> tf.data.Dataset:
        """Packed blocks of the rows that pass the filter: in the order of `tfrecords.blocks`.

        Args:
          files: TFRecord files.
          shard, interleaved, damaged: see `tfrecords.blocks`.
        """
        return self.epoch(files, shard, interleaved=interleaved, damaged=damaged)()

    def epoch(
        self, files: Sequence[str], shard: Shard, *, interleaved: bool, damaged: Damaged
    ) -> Callable[[], tf.data.Dataset]:
        """A function that makes the dataset of `blocks`, also inside a function of tf.data."""
        packed = self._packed()

        def opened(index: np.int64) -> tuple[bytes, np.int64, np.int64]:
            path, number = self._opened(files[int(index)], shard, damaged)
            return path.encode(), np.int64(number), np.int64(self.layout.records)

        def part(index: tf.Tensor, of_file: tf.data.Dataset) -> tf.data.Dataset:
            found = tf.numpy_function(opened, [index], (tf.string, tf.int64, tf.int64))
            path, number, size = (tf.ensure_shape(each, []) for each in found)
            is_stored = tf.cast(tf.equal(number, _STORED), tf.int64)
            stored = tf.data.TFRecordDataset(path).batch(size, drop_remainder=True)
            stored = stored.map(lambda records: (tf.ensure_shape(records, [None]), False))
            if shard.count > 1:
                of_file = tfrecords.dealt(tfrecords.numbered(of_file), shard)
                of_file = of_file.map(lambda block, _: block)
            new = _with_last(of_file)
            both = stored.repeat(is_stored).concatenate(new.repeat(1 - is_stored))
            return both.enumerate().map(lambda place, block: (number, place, *block))

        def all_stored() -> np.ndarray:
            paths = self._all_stored(files, shard, damaged)
            return np.array([path.encode() for path in paths], object)

        def stored_blocks(path: tf.Tensor) -> tf.data.Dataset:
            records = tf.data.TFRecordDataset(path).batch(self.layout.records, drop_remainder=True)
            return records.map(lambda records: tuple(self.layout.from_records(records)))

        def dataset() -> tf.data.Dataset:
            # An epoch of stored rows alone does not start the graph of the transformation, which
            # takes as long as reading some 10,000 rows.
            paths = tf.ensure_shape(tf.numpy_function(all_stored, [], tf.string), [None])
            is_needed = tf.cast(tf.equal(tf.size(paths), 0), tf.int64)
            blocks = tfrecords.each_file(files, part, interleaved=interleaved, damaged=damaged)
            blocks = blocks.map(packed, num_parallel_calls=cores(), deterministic=True)
            stored = tfrecords.of_files(
                tf.data.Dataset.from_tensor_slices(paths),
                len(files),
                stored_blocks,
                interleaved=interleaved,
            )
            return stored.concatenate(blocks.repeat(is_needed))

        return as_written(dataset)

    def rest_of_epoch(
        self, files: Sequence[str], shard: Shard, *, damaged: Damaged, **order: Any
    ) -> Optional[tf.data.Dataset]:
        """An epoch without its first rows; None if they have to be read.

        Args:
          files, shard, damaged: see `blocks`.
          order: the seed, the epoch, the offset and whether it shuffles; see `rest_of_epoch.rest`.
        """
        places, numbers = [], []
        drops_rows = Selection(self._spec).drops_rows
        for source in files:
            _, path = self._found(source, shard, damaged)
            if path is not None:
                blocks = self._places(path)
            elif drops_rows or shard.count > 1 or source in damaged:
                blocks = None
            else:
                blocks = places_of(source)
            if blocks is None:
                return None
            places.append(blocks)
            numbers.append(NOT_WRITTEN if path is None else _STORED)
        packed = self._packed() if NOT_WRITTEN in numbers else None
        sizes = [self.layout.records if n == _STORED else tfrecords.BLOCK for n in numbers]
        of_file, size_of = tf.constant(numbers, tf.int64), tf.constant(sizes, tf.int64)

        def rows(file: tf.Tensor, records: tf.Tensor) -> Sequence[tf.Tensor]:
            if packed is None:
                return self.layout.from_records(records)
            return packed(of_file[file], tf.constant(0, tf.int64), records, False)

        def read(
            file: tf.Tensor, path: tf.Tensor, begin: tf.Tensor, skip: tf.Tensor
        ) -> tf.data.Dataset:
            block = tfrecords.records_at(path, begin, size_of[file])
            return block.map(lambda records: tuple(part[skip:] for part in rows(file, records)))

        return rest_of_epoch.rest(places, read=read, **order)

    def _packed(self) -> Callable[..., tuple[tf.Tensor, ...]]:
        """A function from the number of a shard and the records of a block to its packed rows.

        It also gets the place of the block in its file, and whether it is the last one.
        """
        selection, transform = Selection(self._spec), Transform(self._spec)

        def packed(
            number: tf.Tensor, place: tf.Tensor, records: tf.Tensor, is_last: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            def transformed() -> list[tf.Tensor]:
                rows = transform.features_and_labels(selection.passing(records))
                if self._layout is None:
                    self._layout = RowLayout.of_rows(self._spec, *rows)
                return _stored(self.writer, number, place, is_last, *self._layout.pack(*rows))

            def read() -> list[tf.Tensor]:
                return self.layout.from_records(records)

            # The first function tells the second one the layout, which it would have to make.
            return tuple(tf.cond(tf.not_equal(number, _STORED), transformed, read))

        return packed

    def _places(self, path: str) -> Optional[Blocks]:
        """The blocks of a stored shard."""
        places = file_lengths.places(path, self.layout.records)
        if not places or not self.layout.packed:  # The records of lists do not tell their rows.
            return None
        offsets, lengths = np.array(places, np.int64).T
        dtype, width = self.layout.packed[0]
        return Blocks(path, offsets, lengths // (width * dtype.size))

    def _key(self, source: str, shard: Shard, damaged: Damaged) -> str:
        # A file that is known to be damaged is read in another way, even if no record is skipped.
        content = self._cache.digest(source)
        return folder.of_shard(self._of_rows, source, content, shard, damaged.get(source))

    def _found(
        self, source: str, shard: Shard, damaged: Damaged
    ) -> tuple[Optional[str], Optional[str]]:
        """The key and the path of a file's rows. None: not known, and not stored."""
        try:
            key = self._key(source, shard, damaged)
            self.writer.wait(key)  # The epoch before may just have ended.
            return key, self._cache.found(source, key)
        except (OSError, tf.errors.OpError):
            return None, None  # Reading the file reports the error.

    def _all_stored(self, files: Sequence[str], shard: Shard, damaged: Damaged) -> list[str]:
        """The paths of the rows of the files; none if the rows of one are not stored."""
        paths = []
        for source in files:
            _, path = self._found(source, shard, damaged)
            if path is None:
                return []
            paths.append(path)
        return paths

    def _opened(self, source: str, shard: Shard, damaged: Damaged) -> tuple[str, int]:
        """The path of a file's rows and `_STORED`, or the number with which they are stored."""
        key, path = self._found(source, shard, damaged)
        if path is not None:
            return path, _STORED
        if key is None:
            return "", NOT_WRITTEN
        return "", self.writer.begin(key, source, lambda: self._key(source, shard, damaged) == key)


def _with_last(blocks: tf.data.Dataset) -> tf.data.Dataset:
    """`(block, is_last)` for each block of a file."""
    nothing = tf.zeros([0], tf.string)
    end = tf.data.Dataset.from_tensors((nothing, True))

    def delay(before: tf.Tensor, block: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, Any]:
        return block[0], (before, block[1])

    # One element for each block and none for the end, because elements decide the order of files.
    return blocks.map(lambda block: (block, False)).concatenate(end).scan(nothing, delay).skip(1)


def _stored(
    writer: ShardWriter,
    number: tf.Tensor,
    place: tf.Tensor,
    is_last: tf.Tensor,
    matrices: list[tf.Tensor],
    lists: list[tf.RaggedTensor],
) -> list[tf.Tensor]:
    """The packed rows of a block, which the writer gets, too. Python makes texts of the lists."""

    def store(
        number: np.int64, place: np.int64, is_last: np.bool_, *arrays: np.ndarray
    ) -> list[np.ndarray]:
        parts = arrays[len(matrices) :]
        texts = [list_bytes(flat, splits) for flat, splits in zip(parts[::2], parts[1::2])]
        writer.put(int(number), int(place), [*arrays[: len(matrices)], *texts])
        if is_last:
            writer.end(int(number), int(place) + 1)
        return [np.array(len(texts), np.int64), *texts]

    parts = [part for values in lists for part in (values.flat_values, values.row_splits)]
    types = [tf.int64, *[tf.string] * len(lists)]
    done, *texts = tf.numpy_function(store, [number, place, is_last, *matrices, *parts], types)
    with tf.control_dependencies([done]):
        return [*map(tf.identity, matrices), *(tf.ensure_shape(text, [None]) for text in texts)]
