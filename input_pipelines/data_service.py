"""Training batches that the workers of a tf.data service compute.

A worker does everything that `input_fns.training_batches` does for its files: it reads, drops,
shuffles, batches, parses and transforms. The service assigns files one by one to the workers that
ask for them, each file once an epoch (`ShardingPolicy.DYNAMIC`). So each row is read once an epoch
as long as no worker is lost. The order of rows depends on the speed of the workers.

If a worker is lost, its rows are lost too: no other worker reads its open files, or the rows that
it has read but not yet sent. TensorFlow's dispatcher would then wait forever, because it never
deletes a task of a worker that does not come back. So this module decides itself where the data
end. A worker that has no more rows continues with empty batches. The data end when all rows have
come, or when only empty batches have come for some time.

    worker_input = WorkerInput(Files(spec, files, seed=1), batch_size=512, epochs=2)
    registered = register("grpc://host:5000", worker_input.dataset())
    batches = read(registered, batch_size=512, rows=1000, lost_after_secs=60)

Workers run no Python code, so they cannot skip the damaged part of a file.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import tensorflow as tf

from feature_specs.files import file_systems
from input_pipelines import input_fns
from input_pipelines.eager import as_written
from input_pipelines.reading import shuffling
from input_pipelines.reading.sources import Files
from input_pipelines.record_files import file_bytes, file_lengths, tfrecords
from input_pipelines.record_files.sharding import Shard

# A worker reads one file at a time for each 16 files, up to the local number of open files. With
# few files, one worker then does not take all of them, and a lost worker loses fewer rows.
_FILES_A_READER = 16

# Time for each empty batch, so that a worker without rows needs almost no processor time.
_PAUSE_MICROSECONDS = 20_000


@dataclasses.dataclass(frozen=True)
class WorkerInput:
    """What the workers compute.

    Attributes:
      source: TFRecord files that every worker can read under these names. No file may be damaged.
      batch_size: the rows of a batch. The last batch of each worker may be smaller.
      first_epoch: the number of the first epoch.
      epochs: the number of the last epoch plus 1; None repeats without end.
    """

    source: Files
    batch_size: int
    first_epoch: int = 0
    epochs: Optional[int] = None

    @as_written
    def dataset(self) -> tf.data.Dataset:
        """Batches of `(features, labels)` without end. After the last epoch they are empty."""
        if self.source.runs:
            raise ValueError(
                "rows that are kept together (head ranking) must be batched in one process, not by "
                "the workers of a tf.data service"
            )
        count = len(self.source.files)
        end = self.epochs * count if self.epochs is not None else tf.int64.max
        rows = self._shuffled(self._blocks(tf.data.Dataset.range(self.first_epoch * count, end)))
        batches = rows.rebatch(self.batch_size)
        if self.epochs is not None:
            batches = batches.concatenate(_pauses())
        return input_fns.transformed(batches, self.source.reader(Shard()), deterministic=False)

    def _blocks(self, turns: tf.data.Dataset) -> tf.data.Dataset:
        """Blocks of one file for each turn. A turn is a number that the dispatcher assigns."""
        ordered = file_systems.ordered(self.source.files)
        paths = tf.constant(ordered)
        names_of = file_systems.names_of(ordered)
        names = tf.constant([names_of[path] for path in ordered])
        compressions = tf.constant([tfrecords.compression_type(path) for path in ordered])
        file_lengths.check(ordered)
        lengths = tf.constant(file_bytes.stored_lengths(ordered))
        count = len(ordered)
        selection = self.source.selection

        def of_file(turn: tf.Tensor) -> tf.data.Dataset:
            epoch = turn // count
            seed = [shuffling.mixed(self.source.seed, epoch), tf.constant(0, tf.int64)]
            order = tf.random.experimental.stateless_shuffle(tf.range(count), seed=seed)
            file = order[turn % count]
            path = paths[file]
            blocks = tfrecords.whole_file(path, compressions[file], lengths[file], in_graph=True)
            if not selection.drops_rows:
                return blocks
            return tfrecords.numbered(blocks).map(
                lambda block, places: selection.records_of_epoch(block, names[file], places, epoch)
            )

        readers = min(tfrecords.OPEN_FILES, count // _FILES_A_READER)
        if readers < 2:
            return turns.flat_map(of_file)
        return turns.interleave(
            of_file, cycle_length=readers, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
        )

    def _shuffled(self, blocks: tf.data.Dataset) -> tf.data.Dataset:
        """Like `shuffling.shuffled_epoch`, but windows may contain rows of two epochs.

        A scan counts the windows. `enumerate` would add a source that the dispatcher assigns, too.
        """
        seed = tf.constant(self.source.seed, tf.int64)
        shuffled = blocks.shuffle(shuffling.BLOCK_BUFFER, seed=self.source.seed)

        def permute(window: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            order = tf.random.experimental.stateless_shuffle(rows, seed=[seed, window])
            return window + 1, order

        return shuffled.rebatch(shuffling.WINDOW).scan(
            tf.constant(self.first_epoch, tf.int64), permute
        )


def _pauses() -> tf.data.Dataset:
    """Empty batches, at a low rate, without end."""
    numbers = tf.data.Dataset.range(tf.int64.max)
    # tf.data has only this raw op for it.
    slow = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(numbers),
        sleep_microseconds=tf.constant(_PAUSE_MICROSECONDS, tf.int64),
        output_types=[tf.int64],
        output_shapes=[tf.TensorShape([])],
    )
    paced = tf.data.experimental.from_variant(slow, tf.TensorSpec([], tf.int64))
    return paced.map(lambda number: tf.zeros([0], tf.string))


@dataclasses.dataclass(frozen=True)
class Registered:
    """A dataset that a service knows.

    Attributes:
      service: the dispatcher, as `grpc://host:port`.
      dataset_id: the service's name for the dataset.
      element_spec: the spec of its elements.
    """

    service: str
    dataset_id: str
    element_spec: Any


def register(service: str, dataset: tf.data.Dataset) -> Registered:
    """Registers a dataset with a service. If the service cannot be reached, this waits forever.

    Call it eagerly: in a graph, lookup tables might be sent before they are filled.
    """
    dataset_id = tf.data.experimental.service.register_dataset(service, dataset)
    name = dataset_id.numpy()
    text = name.decode() if isinstance(name, bytes) else str(name)
    return Registered(service, text, dataset.element_spec)


@as_written
def read(
    registered: Registered, *, batch_size: int, rows: Optional[int], lost_after_secs: float
) -> tf.data.Dataset:
    """The batches of a registered dataset. All have `batch_size` rows, except the very last one.

    Args:
      registered: a registered `WorkerInput.dataset`.
      batch_size: the batch size of the `WorkerInput`.
      rows: how many rows the dataset has, or None if it has no end.
      lost_after_secs: if workers send no row for this many seconds, the missing rows are given up:
        they were lost with another worker. Used only if `rows` is given.
    """
    service = tf.data.experimental.service
    batches = service.from_dataset_id(
        service.ShardingPolicy.DYNAMIC,
        registered.service,
        registered.dataset_id,
        element_spec=registered.element_spec,
    )
    if rows is not None:
        batches = _to_the_end(batches, batch_size, rows, lost_after_secs)
    return batches.prefetch(input_fns.PREFETCHED_BATCHES)


def _to_the_end(
    batches: tf.data.Dataset, batch_size: int, rows: int, lost_after_secs: float
) -> tf.data.Dataset:
    """Joins the small last batches of the workers, drops empty batches, and ends the dataset.

    The rest of the rows is emitted when the first empty batch after the last row arrives.
    """
    spec = batches.element_spec
    empty = tf.nest.map_structure(_no_rows, spec)
    start = (_flat(empty), tf.constant(0, tf.int64), tf.constant(-1.0, tf.float64))

    def step(state: Any, batch: Any) -> Any:
        parts, seen, last = state
        rest = tf.nest.pack_sequence_as(spec, parts, expand_composites=True)
        size = _rows(batch)
        now = tf.cast(tf.timestamp(), tf.float64)
        over = (seen >= rows) | ((last >= 0) & (now - last > lost_after_secs) & tf.equal(size, 0))
        waiting = _rows(rest)

        def keep() -> Any:
            return rest, batch

        def join() -> Any:
            joined = _concatenated(rest, batch)
            is_full = waiting + size >= batch_size
            first = tf.where(is_full, batch_size, 0)
            return _sliced(joined, first, None), _sliced(joined, None, first)

        def flush() -> Any:
            return empty, rest

        passes = tf.equal(size, batch_size) | tf.equal(size, 0)
        new_rest, result = tf.cond(over, flush, lambda: tf.cond(passes, keep, join))
        # The clock starts with the first batch, because workers may still have to start before it.
        last = tf.where((size > 0) | (last < 0), now, last)
        is_end = over & tf.equal(_rows(result), 0)
        return (_flat(new_rest), seen + tf.cast(size, tf.int64), last), (result, is_end)

    scanned = batches.scan(start, step)
    until_end = scanned.take_while(lambda batch, is_end: tf.logical_not(is_end))
    filled = until_end.filter(lambda batch, is_end: _rows(batch) > 0)
    return filled.map(lambda batch, is_end: batch)


def _flat(batch: Any) -> tuple[tf.Tensor, ...]:
    """A batch as dense tensors, because the state of a scan cannot be ragged."""
    return tuple(tf.nest.flatten(batch, expand_composites=True))


def _rows(batch: Any) -> tf.Tensor:
    first = tf.nest.flatten(batch)[0]
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int32)
    return tf.shape(first)[0]


def _no_rows(spec: Any) -> Any:
    if isinstance(spec, tf.RaggedTensorSpec):
        splits = [tf.zeros([1], spec.row_splits_dtype)] * spec.ragged_rank
        return tf.RaggedTensor.from_nested_row_splits(tf.zeros([0], spec.dtype), splits)
    return tf.zeros([0, *spec.shape[1:].as_list()], spec.dtype)


def _concatenated(first: Any, second: Any) -> Any:
    return tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=0), first, second)


def _sliced(batch: Any, start: Any, stop: Any) -> Any:
    return tf.nest.map_structure(lambda value: value[start:stop], batch)
