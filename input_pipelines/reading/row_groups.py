"""Keeps the rows of a group together, for a spec that has an objective with the head `ranking`.

A *run* is a sequence of rows of one group that follow each other in a file. Rows that the spec's
`filter` drops do not belong to it and do not split it. If rows were shuffled one by one, the rows
of a group would hardly ever meet in a batch, and a pairwise loss would have no pairs, without any
error. This module reads, shuffles and batches whole runs.

    blocks = tfrecords.blocks(files, cut=runs_of_a_file(spec, longest=batch_size))
    batches = whole_batches(shuffled_runs(blocks, seed, epoch), batch_size)

Each element has rows, a string [n], and the lengths of their runs, an int64 [runs] with the sum n.
Nothing is sorted: if the rows of a group are in several places of a file, they are several runs.
`check_neighbors` warns about that when training starts. A row without a group (a missing value) is
a run of one row. A run that is longer than a batch is cut.

A batch may contain two runs of one group: from two files, or from two places of one file. If one
epoch ends and the next one starts inside a batch, it may contain the same run twice. The loss sees
two such runs as one list; in the last case this list has each row twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading import shuffling
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files.tfrecords import BLOCK
from input_pipelines.transform import checks
from input_pipelines.transform.labels import group_hash
from input_pipelines.transform.record_parsing import RecordParser

_log = logging.getLogger("estimator_kit")

_BLOCKS_A_WINDOW = shuffling.WINDOW // BLOCK


def runs_of_a_file(
    spec: FeatureSpec, *, longest: int
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Returns a `cut` for `tfrecords.blocks`: it cuts a file into blocks of whole runs.

    The new blocks have about as many rows as the old ones.

    Args:
      spec: a spec with a `kept_together` feature.
      longest: the most rows of a run. A longer one is split into several runs.
    """
    keys_of = _keys_of(spec)

    def cut(blocks: tf.data.Dataset) -> tf.data.Dataset:
        keyed = blocks.map(
            lambda rows: (rows, keys_of(rows)), num_parallel_calls=2, deterministic=True
        )
        nothing = (tf.zeros([0], tf.string), tf.zeros([0], tf.int64))

        def step(pending: tuple[Any, ...], block: tuple[Any, ...]) -> tuple[Any, ...]:
            rows, keys = (tf.concat(parts, axis=0) for parts in zip(pending, block[:2]))
            count = tf.size(keys, tf.int64)
            starts = _starts(keys, longest)
            # The last run may continue in the next block.
            end = tf.where(block[2], count, tf.reduce_max(tf.concat([[0], starts], axis=0)))
            lengths = _differences(tf.boolean_mask(starts, starts < end), end)
            return (rows[end:], keys[end:]), (rows[:end], lengths)

        return _with_end(keyed).scan(nothing, step).filter(lambda rows, lengths: tf.size(rows) > 0)

    return cut


def shuffled_runs(blocks: tf.data.Dataset, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    """Like `shuffling.shuffled_epoch`, but moves whole runs. Rows keep their order inside a run."""
    shuffled = blocks.shuffle(shuffling.BLOCK_BUFFER, seed=shuffling.mixed(seed, epoch))

    def permute(index: tf.Tensor, block: tuple[Any, ...]) -> tuple[Any, ...]:
        rows, lengths = (part.flat_values for part in block)
        order = tf.random.experimental.stateless_shuffle(
            tf.range(tf.size(lengths)), seed=[shuffling.mixed(seed, epoch), index]
        )
        runs = tf.RaggedTensor.from_row_lengths(rows, lengths, validate=False)
        runs = tf.gather(runs, order)
        return runs.flat_values, runs.row_lengths()

    windows = shuffled.ragged_batch(_BLOCKS_A_WINDOW)
    return (
        windows.map(lambda *block: block)
        .enumerate()
        .map(permute, num_parallel_calls=2, deterministic=True)
    )


def epochs(
    one_epoch: shuffling.OneEpoch,
    span: shuffling.Span,
    *,
    batch_size: int,
    empty: str = "an epoch holds no record",
) -> tf.data.Dataset:
    """Batches of one epoch after the other; counts and skips epochs like `shuffling.epochs`.

    `one_epoch` returns runs. Each batch is a string tensor [rows].
    """
    first, offset = span.start()
    if span.epochs is None:
        one_epoch = shuffling.never_empty(one_epoch, empty)
    return whole_batches(span.numbers(first).flat_map(one_epoch), batch_size, offset)


def whole_batches(runs: tf.data.Dataset, batch_size: int, skip_rows: int = 0) -> tf.data.Dataset:
    """Batches of whole runs, as string tensors of about `batch_size` rows.

    Imagine batches that are cut after every `batch_size` rows. A run belongs to the batch that
    would contain its last row. So batches have this size on average, no batch is empty, and there
    are as many of them as with single rows. How many rows a number of batches has read is known
    without reading them.

    Args:
      runs: rows, with the lengths of their runs. No run is longer than `batch_size`.
      batch_size: the average number of rows in a batch.
      skip_rows: the rows of the batches that an earlier run has read.
    """
    nothing = (tf.constant(-skip_rows, tf.int64), tf.zeros([0], tf.string), tf.zeros([0], tf.int64))

    def step(pending: tuple[Any, ...], block: tuple[Any, ...]) -> tuple[Any, ...]:
        position, *parts = pending
        rows, lengths = (tf.concat(pair, axis=0) for pair in zip(parts, block[:2]))
        batch = (position + tf.cumsum(lengths) - 1) // batch_size
        # The last batch may get more runs.
        done = block[2] | (batch < tf.reduce_max(batch))
        run_count = tf.math.count_nonzero(done)
        end = tf.reduce_sum(lengths[:run_count])
        old = tf.math.count_nonzero(done & (batch < 0))
        begin = tf.reduce_sum(lengths[:old])
        starts = tf.boolean_mask(
            tf.cumsum(lengths[old:run_count], exclusive=True), row_changes(batch[old:run_count])
        )
        sizes = _differences(starts, end - begin)
        return (position + end, rows[end:], lengths[run_count:]), (rows[begin:end], sizes)

    def one_by_one(rows: tf.Tensor, sizes: tf.Tensor) -> tf.data.Dataset:
        ends = tf.cumsum(sizes)
        slices = tf.data.Dataset.from_tensor_slices((ends - sizes, ends))
        return slices.map(lambda begin, end: rows[begin:end])

    return _with_end(runs).scan(nothing, step).flat_map(one_by_one)


def check_neighbors(spec: FeatureSpec, records: Mapping[str, Sequence[bytes]]) -> None:
    """Warns if most records are not next to a record of their group. Arguments: see `neighbors`.

    Raises:
      DataError: no record is next to a record of its group.
    """
    text, unusable = neighbors(spec, records)
    if unusable:
        raise DataError(text)
    if text:
        _log.warning("%s", text)


def neighbors(spec: FeatureSpec, records: Mapping[str, Sequence[bytes]]) -> tuple[str, bool]:
    """Checks in some records of each file whether the rows of a group follow each other.

    Otherwise training would learn from groups of one row.

    Args:
      spec: the feature spec.
      records: serialized records of each file, as `record_lists.first_records` returns them.

    Returns:
      (sentence, unusable): what is wrong, and whether the files cannot be used because no record is
      next to a record of its group. The sentence is "" if at least half of the records have such a
      neighbor, or if the spec has no objective with the head `ranking`.
    """
    if spec.kept_together is None:
        return "", False
    keys_of = _keys_of(spec)
    selection = Selection(spec)
    alone = missing = total = 0
    for some in records.values():
        try:
            keys = keys_of(selection.passing(tf.constant(list(some))))
        except checks.BAD_RECORD_ERRORS:
            continue  # The run itself reports the bad record.
        same = (keys[1:] == keys[:-1]) & (keys[1:] >= 0)
        paired = tf.pad(same, [[1, 0]]) | tf.pad(same, [[0, 1]])
        alone += len(keys) - int(tf.math.count_nonzero(paired))
        missing += int(tf.math.count_nonzero(keys < 0))
        total += len(keys)
    if 2 * alone <= total:
        return "", False
    if missing == total:
        text = (
            f"none of the first {total} records of {len(records)} files has a value of the feature "
            f"{spec.kept_together!r}, but the head ranking compares the rows that share a value. "
            "Write the feature into the records, or choose another group_by"
        )
        return text, True
    text = (
        f"of the first {total} records of {len(records)} files, {alone} are not next to a record "
        f"with the same {spec.kept_together!r}, but the head ranking learns from rows that follow "
        "each other. Sort the records of each file by this feature, or choose another group_by"
    )
    return text, alone == total


def row_changes(values: tf.Tensor) -> tf.Tensor:
    """bool [rows]: whether a value differs from the one before it. The first row is always True."""
    first = tf.ones_like(values[:1], tf.bool)
    return tf.concat([first, tf.not_equal(values[1:], values[:-1])], axis=0)


def _keys_of(spec: FeatureSpec) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function from serialized rows to int64 hashes of their groups; -1 for a missing group."""
    name = spec.kept_together
    assert name is not None
    parser = RecordParser(spec)
    return lambda rows: group_hash(parser.parse_label_feature(rows, name))


def _starts(keys: tf.Tensor, longest: int) -> tf.Tensor:
    """The positions int64 [runs] at which runs begin."""
    begins = row_changes(keys) | (keys < 0)
    position = tf.range(tf.size(keys, tf.int64))
    first = tf.boolean_mask(position, begins)
    offset = position - tf.gather(first, tf.cumsum(tf.cast(begins, tf.int64)) - 1)
    return tf.boolean_mask(position, tf.equal(offset % longest, 0))


def _differences(starts: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
    """The lengths of parts that begin at `starts`; the last part ends at `end`."""
    edges = tf.concat([starts, [end]], axis=0)
    return edges[1:] - edges[:-1]


def _with_end(blocks: tf.data.Dataset) -> tf.data.Dataset:
    """Adds False to each block of (string, int64), and appends an empty block with True."""
    end = (tf.zeros([0], tf.string), tf.zeros([0], tf.int64), True)
    blocks = blocks.map(lambda rows, numbers: (rows, numbers, False))
    return blocks.concatenate(tf.data.Dataset.from_tensors(end))
