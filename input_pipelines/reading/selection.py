"""Selects the rows that are used: those that pass the spec's `filter`, and some of the negatives.

Rows are dropped block by block when they are read, before they are shuffled. So batches are full,
and shuffle windows contain only rows that are used. Only the few features that decide are parsed
at this point. `negatives` says which negatives an epoch keeps.

    selection = Selection(spec, negatives=Negatives("click", 0.1), seed=1, of=files)
    selection.count(files)          # RowCounts(read=1000, kept=(190,))
    verdicts(records, spec.conditions)      # [True, False, ...] for whoever measures rows

In a damaged file, places count only the records that are read. Rows that are kept together
(`row_groups`) can be filtered but not sampled. The filter drops rows before the file is cut into
runs. Dropping some negatives of a list would make it a different list.

This module never changes a row. `weigh` adds the weights of the kept negatives to the labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from feature_specs.files import file_systems
from feature_specs.kinds import bounds
from feature_specs.reference import columns
from feature_specs.sections.records import Condition
from feature_specs.spec import FeatureSpec
from input_pipelines import eager
from input_pipelines.eager import as_written
from input_pipelines.reading.negatives import Negatives
from input_pipelines.reading.shuffling import RowsAnEpoch, rows_of_epochs
from input_pipelines.record_files import record_lists, tfrecords
from input_pipelines.record_files.sharding import Shard
from input_pipelines.transform import checks

# The number of epochs that are counted each time the files are read.
_EPOCHS_A_READING = 64


@dataclasses.dataclass(frozen=True)
class RowCounts:
    """How many rows some files have.

    Attributes:
      read: rows in the files, or in the shard of them that is read.
      kept: rows that each epoch keeps, from the first epoch on. One number if all epochs keep the
        same rows.
    """

    read: int
    kept: tuple[int, ...]

    @property
    def rows_an_epoch(self) -> RowsAnEpoch:
        """`kept` in the form that the input functions take."""
        return self.kept[0] if len(self.kept) == 1 else self.kept

    def in_epochs(self, number: int) -> int:
        """The rows of the first `number` epochs."""
        return rows_of_epochs(self.rows_an_epoch, number)


class Selection:
    """Drops rows by the spec's `filter`, and samples negatives.

    Args:
      spec: the feature spec, with its `filter`.
      negatives: which negatives training keeps; None keeps all.
      seed: the seed of the training run.
      of: with `negatives`, all files of the training, of which a worker may read a part.
    """

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        negatives: Optional[Negatives] = None,
        seed: int = 1,
        of: Sequence[str] = (),
    ):
        if negatives is not None and not of:
            raise ValueError("negatives need all files of the training, because names decide")
        self._spec = spec
        self._names = file_systems.names_of(of)
        self._negatives = negatives
        self._seed = seed
        self._conditions = spec.conditions
        self._entries = _entries(self._conditions)
        if negatives is not None:
            self._entries.update(columns.parse_entries(spec, [negatives.label]))

    @property
    def drops_rows(self) -> bool:
        """Whether anything may be dropped."""
        return bool(self._entries)

    @property
    def same_each_epoch(self) -> bool:
        return self._negatives is None

    @as_written
    def blocks(
        self,
        files: Sequence[str],
        shard: Shard = Shard(),
        *,
        epoch: Any = 0,
        interleaved: bool = False,
        cut_into_runs: Optional[Callable[[tf.data.Dataset], tf.data.Dataset]] = None,
        damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    ) -> tf.data.Dataset:
        """As `tfrecords.blocks`, without what is dropped; blocks may be small, or empty.

        `cut_into_runs` gets the blocks without what the filter drops; it does not go with
        `negatives`.
        """
        if cut_into_runs is not None and self._negatives is not None:
            raise ValueError("negatives cannot be dropped from rows that are kept together")
        if cut_into_runs is not None or not self.drops_rows:
            return tfrecords.blocks(
                files,
                shard,
                interleaved=interleaved,
                cut=self._after_filter(cut_into_runs),
                damaged=damaged,
            )

        numbered = self._numbered(files, shard, interleaved=interleaved, damaged=damaged)
        return numbered.map(
            lambda block, file, places: self.records_of_epoch(block, file, places, epoch),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )

    def lists(
        self, files: Sequence[str], size: int, *, damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE
    ) -> Iterator[list[bytes]]:
        """The records of the first epoch in lists of `size`; see `record_lists.of_files`."""
        if not self.drops_rows:
            yield from record_lists.of_files(files, size, damaged=damaged)
            return
        with eager.kept():
            blocks = iter(self.blocks(files, damaged=damaged).rebatch(size))
        while True:
            with eager.kept():  # Whoever asks for the next list may be in a graph.
                block = next(blocks, None)
                records = [] if block is None else block.numpy().tolist()
            if block is None:
                return
            if records:
                yield records

    def _numbered(self, files: Sequence[str], shard: Shard, **options: Any) -> tf.data.Dataset:
        """The `numbered_blocks` of some files, each with the name that decides about negatives."""
        names = None if self._negatives is None else self._names
        return tfrecords.numbered_blocks(files, shard, names=names, **options)

    def records_of_epoch(
        self, block: tf.Tensor, file: tf.Tensor, places: tf.Tensor, epoch: Any
    ) -> tf.Tensor:
        """The records of a block that an epoch keeps; `file` is the name of the block's file."""
        if not self.drops_rows:
            return block
        epochs = tf.reshape(tf.cast(epoch, tf.int64), [1])
        passes, drawn = self._decided(block, file, places, epochs)
        return tf.boolean_mask(block, passes & drawn[:, 0])

    def _after_filter(
        self, cut_into_runs: Optional[Callable[[tf.data.Dataset], tf.data.Dataset]]
    ) -> Optional[Callable[[tf.data.Dataset], tf.data.Dataset]]:
        """As `cut_into_runs`, but first drops the rows that the filter rejects."""
        if cut_into_runs is None or not self.drops_rows:
            return cut_into_runs
        return lambda of_file: cut_into_runs(
            of_file.map(self.passing, num_parallel_calls=2, deterministic=True)
        )

    def passing(self, block: tf.Tensor) -> tf.Tensor:
        """The records of a block that pass the filter."""
        return tf.boolean_mask(block, mask(block, self._conditions)) if self._conditions else block

    def count(
        self,
        files: Sequence[str],
        shard: Shard = Shard(),
        *,
        epochs: int = 1,
        damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    ) -> RowCounts:
        """Counts all rows, and the rows that each epoch keeps.

        Reads the files once for every 64 epochs. Parses only the features that decide; if no rows
        can be dropped, it parses nothing. Only the good records of a damaged file count.

        Raises:
          DataError: a file is corrupt and not listed in `damaged`.
          tf.errors.InvalidArgumentError: a record lacks a feature or label that decides.
        """
        if not self.drops_rows:
            rows = tfrecords.count_records(files, shard, damaged=damaged)
            return RowCounts(rows, (rows,))
        numbers = list(range(1 if self.same_each_epoch else epochs))
        rows = 0
        kept: list[int] = []
        for first in range(0, len(numbers), _EPOCHS_A_READING):
            some = numbers[first : first + _EPOCHS_A_READING]
            rows, kept_of_some = self._count_epochs(files, shard, some, damaged)
            kept += kept_of_some
        return RowCounts(rows, tuple(kept))

    def count_until(
        self,
        files: Sequence[str],
        shard: Shard = Shard(),
        *,
        rows: int,
        epochs: int = 1,
        damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    ) -> RowCounts:
        """Like `count`, but counts enough epochs to keep more than `rows` rows."""
        counts = self.count(files, shard, epochs=epochs, damaged=damaged)
        while not self.same_each_epoch and sum(counts.kept) <= rows:
            if not any(counts.kept):
                return counts
            # A tenth and two epochs more, because epochs keep different numbers of rows. One more
            # reading would cost more than a few more epochs in this one.
            needed = int(1.1 * rows * len(counts.kept) / sum(counts.kept)) + 2
            needed = max(needed, 2 * len(counts.kept))
            counts = self.count(files, shard, epochs=needed, damaged=damaged)
        return counts

    def weigh(self, labels: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The labels of a training batch, with the weights of its negatives."""
        return labels if self._negatives is None else self._negatives.weigh(self._spec, labels)

    @as_written
    def _count_epochs(
        self,
        files: Sequence[str],
        shard: Shard,
        epochs: list[int],
        damaged: tfrecords.Damaged,
    ) -> tuple[int, list[int]]:
        """The number of all rows, and of the rows that each epoch keeps."""

        def counted(block: tf.Tensor, file: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
            passes, drawn = self._decided(block, file, places, tf.constant(epochs, tf.int64))
            kept = tf.math.count_nonzero(passes[:, tf.newaxis] & drawn, axis=0)
            return tf.concat([[tf.size(block, tf.int64)], kept], axis=0)

        with tfrecords.naming_what_is_corrupt(files, damaged):
            numbered = self._numbered(files, shard, interleaved=True, damaged=damaged)
            counts = numbered.map(counted, num_parallel_calls=tf.data.AUTOTUNE)
            nothing = tf.zeros([1 + len(epochs)], tf.int64)
            total = counts.reduce(nothing, lambda total, block: total + block)
            rows, *kept = total.numpy().tolist()
            return rows, kept

    def _decided(
        self, block: tf.Tensor, file: tf.Tensor, places: tf.Tensor, epochs: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Which rows pass the filter, bool [rows], and are drawn, bool [rows, epochs]."""
        parsed = tf.io.parse_example(block, self._entries)
        passes = _meets_all(parsed, self._conditions, tf.size(block))
        if self._negatives is None:
            return passes, tf.ones([tf.size(block), tf.size(epochs)], tf.bool)
        drawn = self._negatives.drawn(
            self._spec,
            parsed[self._negatives.label],
            seed=self._seed,
            epochs=epochs,
            file=file,
            places=places,
        )
        return passes, drawn


def mask(block: tf.Tensor, conditions: Sequence[Condition]) -> tf.Tensor:
    """Whether each serialized record meets all conditions, bool [rows]."""
    if not conditions:
        return tf.ones_like(block, tf.bool)
    return _meets_all(tf.io.parse_example(block, _entries(conditions)), conditions, tf.size(block))


def verdicts(
    records: Sequence[bytes], conditions: Sequence[Condition]
) -> list[Union[bool, Exception]]:
    """For each record whether it meets all conditions, or the error with which training stops."""
    if not conditions:
        return [True] * len(records)
    try:
        result: list[Union[bool, Exception]] = (
            mask(tf.constant(list(records), tf.string), conditions).numpy().tolist()
        )
        return result
    except checks.BAD_RECORD_ERRORS as error:
        if len(records) == 1:
            return [error]
        middle = len(records) // 2
        halves = records[:middle], records[middle:]
        return [verdict for half in halves for verdict in verdicts(half, conditions)]


def _entries(conditions: Sequence[Condition]) -> dict[str, Any]:
    return {
        condition.filter.feature: tf.io.FixedLenFeature((), condition.dtype, condition.default)
        for condition in conditions
    }


def _meets_all(
    parsed: dict[str, tf.Tensor], conditions: Sequence[Condition], rows: tf.Tensor
) -> tf.Tensor:
    """Whether each of some parsed rows meets all conditions, bool [rows]."""
    passes = tf.ones([rows], tf.bool)
    floats = {
        condition.filter.feature: parsed[condition.filter.feature][:, tf.newaxis]
        for condition in conditions
        if condition.dtype == "float32"
    }
    parsed = {**parsed, **{n: v[:, 0] for n, v in checks.finite(floats).items()}}
    for condition in conditions:
        entry = condition.filter
        values = parsed[entry.feature]
        for key, words in entry.words.items():
            listed = tf.constant(list(words), values.dtype)
            is_listed = tf.reduce_any(tf.equal(values[:, tf.newaxis], listed), axis=1)
            passes &= is_listed if key == "in" else ~is_listed
        for key, bound in entry.bounds.items():
            if key == "min":
                passes &= values >= bounds.at_least(bound, condition.dtype)
            else:
                passes &= values <= bounds.at_most(bound, condition.dtype)
    return passes
