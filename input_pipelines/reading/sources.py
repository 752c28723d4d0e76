"""Where the rows of a training come from: files, a mix of several sets of files, or a function.

    source = Files(spec, paths, seed=1)
    batches = source.batches(Shard(), Span(epochs=2), 512).map(source.reader(Shard()))

A source knows everything that decides its rows and their order: the spec with its filter, the
seed, damaged files and negatives. `input_fns.training_batches` turns any source into the input of
a model, and `row_cache.cache.Cached` is a source that reads stored rows of files. All sources
divide their rows among shards before they are shuffled, and can start again after any row.

If a spec has an objective with the head `ranking`, rows come in whole runs of their group; see
`row_groups`. Such a spec allows no mix and no negatives.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Optional, Protocol

import numpy as np
import tensorflow as tf

from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.reading import mixing, rest_of_epoch, row_groups, shuffling
from input_pipelines.reading.mixing import Mix
from input_pipelines.reading.negatives import Negatives
from input_pipelines.reading.own_rows import OwnRows
from input_pipelines.reading.rest_of_epoch import Blocks
from input_pipelines.reading.selection import RowCounts, Selection
from input_pipelines.reading.shuffling import Span, rows_of_epochs
from input_pipelines.record_files import file_lengths, tfrecords
from input_pipelines.record_files.sharding import Shard
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")

Cut = Optional[Callable[[tf.data.Dataset], tf.data.Dataset]]


class Source(Protocol):
    """What `input_fns.training_batches` reads."""

    def batches(self, shard: Shard, span: Span, size: int) -> tf.data.Dataset:
        """Batches of rows of a shard, as `reader` takes them: a tensor [rows, ...], or several.

        A batch may contain rows of two epochs; only the very last one may be smaller than `size`.
        If rows are kept together, `size` is the average number of rows.
        """

    def reader(self, shard: Shard) -> Callable[..., Any]:
        """A function from a batch to `(features, labels)`, with the weights of the negatives."""


@dataclasses.dataclass(frozen=True)
class RowSource:
    """What all sources of records share.

    Attributes:
      spec: the feature spec. Rows that its `filter` drops are not read.
      origin: the files, the mix or the function.
      seed: the order of rows depends on the seed and the epoch.
      shuffle: False keeps the order of the files.
      negatives: negative down-sampling, or None.
      damaged: the files of which only the good records are read; see `tfrecords.blocks`.
      sizes: the bytes of each file, used to divide files among shards; see `Shard.deal`.
      flag: what names the source in messages.

    Raises:
      ValueError: rows are kept together, but a mix or negatives would separate them.
    """

    flag: ClassVar[str]

    spec: FeatureSpec
    origin: Any
    seed: int = 1
    shuffle: bool = True
    negatives: Optional[Negatives] = None
    damaged: tfrecords.Damaged = dataclasses.field(default_factory=dict)
    sizes: Optional[Mapping[str, int]] = None

    def __post_init__(self) -> None:
        if self.runs and not self.keeps_runs:
            raise ValueError(
                f"rows of one {self.spec.kept_together!r} are kept together for the head ranking, "
                "so they allow no mix and no negative down-sampling"
            )

    @property
    def files(self) -> list[str]:
        """All files that are read."""
        raise NotImplementedError

    @property
    def parts(self) -> list[list[str]]:
        """The files of each part of a mix; else one list."""
        return [self.files]

    def skips(self, rows: int) -> list[int]:
        """How many rows of each part were read after `rows` rows; of a mix, in whole rounds."""
        return [rows]

    @property
    def runs(self) -> bool:
        """Whether rows come in whole runs of their group."""
        return self.spec.kept_together is not None

    @property
    def keeps_runs(self) -> bool:
        """Whether rows that follow each other stay together."""
        return self.negatives is None

    @property
    def is_selected(self) -> bool:
        """Whether rows are dropped, so that only counting them tells how many an epoch has."""
        return self.selection.drops_rows

    @functools.cached_property  # It looks at the folders of all files.
    def selection(self) -> Selection:
        return Selection(self.spec, negatives=self.negatives, seed=self.seed, of=self.files)

    def batches(self, shard: Shard, span: Span, size: int) -> tf.data.Dataset:
        one_epoch, empty = self.epochs(self.files, shard, size)
        if self.runs:
            return row_groups.epochs(one_epoch, span, batch_size=size, empty=empty)
        rest_of = functools.partial(self.rest_of_epoch, *self.deal(self.files, shard))
        return _cut_into_batches(shuffling.epochs(one_epoch, span, empty, rest_of), span, size)

    def rest_of_epoch(
        self, paths: Sequence[str], records: Shard, epoch: int, offset: int
    ) -> Optional[tf.data.Dataset]:
        """An epoch without its first rows, as `shuffling.epochs` needs it; None if unknown."""
        return None

    def reader(self, shard: Shard) -> Callable[..., Any]:
        transform, selection = Transform(self.spec), self.selection

        def read(batch: tf.Tensor) -> Any:
            features, labels = transform.features_and_labels(batch)
            return features, selection.weigh(labels)

        return read

    def deal(self, paths: Sequence[str], shard: Shard) -> tuple[list[str], Shard]:
        """The files that a shard opens, and the part of their records that it reads."""
        return shard.deal(paths, self.sizes, whole=self.runs)

    def epochs(
        self, paths: Sequence[str], shard: Shard, size: int
    ) -> tuple[shuffling.OneEpoch, str]:
        """A function that makes an epoch from its number, and the error for an empty epoch."""
        own, records = self.deal(paths, shard)
        if self.runs and records.count > 1:
            raise ValueError(
                f"{records.count} workers cannot share {len(paths)} files, because rows of one "
                f"{self.spec.kept_together!r} must stay together. Write at least one file for each "
                "worker"
            )
        cut = row_groups.runs_of_a_file(self.spec, longest=size) if self.runs else None
        shuffled = row_groups.shuffled_runs if self.runs else shuffling.shuffled_epoch

        rows = self.open(own, records, cut)

        def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
            return shuffled(rows(number), self.seed, number) if self.shuffle else rows(number)

        kept = " that is kept" if self.selection.drops_rows else ""
        if shard.count == 1:
            return one_epoch, f"an epoch of the input holds no record{kept}"
        worker = f"this worker ({shard.index + 1} of {shard.count})"
        return one_epoch, f"an epoch of {worker} holds no record{kept}; train with fewer workers"

    def open(self, paths: Sequence[str], records: Shard, cut: Cut) -> shuffling.OneEpoch:
        """A function from an epoch's number to its rows, as `Selection.blocks` returns them."""
        return lambda epoch: self.selection.blocks(
            paths,
            records,
            epoch=epoch,
            interleaved=self.shuffle,
            cut_into_runs=cut,
            damaged=self.damaged,
        )

    def count(self, shard: Shard, skip: int = 0, epochs: Optional[int] = None) -> list[RowCounts]:
        """Counts the rows of a shard in as many epochs as needed, for each part of a mix.

        Raises:
          DataError: a file is corrupt and not listed in `damaged`.
        """
        counts = []
        for paths, rows in zip(self.parts, self.skips(skip)):
            own, records = self.deal(paths, shard)
            counts.append(
                self.selection.count_until(
                    own, records, rows=rows, epochs=epochs or 1, damaged=self.damaged
                )
            )
        return counts

    def log_counts(self, counts: Sequence[RowCounts]) -> None:
        """Logs what the counts of the parts mean for a training."""

    def only(self, files: Sequence[str], damaged: tfrecords.Damaged) -> RowSource:
        """The same source with these files alone, of which some are damaged."""
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """What decides the rows and their order, apart from the files, the spec and the seed."""
        return {}


class Files(RowSource):
    """TFRecord files. Their order does not matter, because they are sorted."""

    flag = "--train_files"
    origin: list[str]

    @property
    def files(self) -> list[str]:
        return list(self.origin)

    def rest_of_epoch(
        self, paths: Sequence[str], records: Shard, epoch: int, offset: int
    ) -> Optional[tf.data.Dataset]:
        if self.is_selected or self.damaged or records.count > 1:
            return None
        blocks = [places_of(path) for path in paths]
        known = [each for each in blocks if each is not None]
        if len(known) < len(paths):
            return None

        def read(
            file: tf.Tensor, path: tf.Tensor, begin: tf.Tensor, skip: tf.Tensor
        ) -> tf.data.Dataset:
            block = tfrecords.records_at(path, begin, tfrecords.BLOCK)
            return block.map(lambda records: records[skip:])

        return rest_of_epoch.rest(
            known, seed=self.seed, epoch=epoch, offset=offset, shuffle=self.shuffle, read=read
        )

    def only(self, files: Sequence[str], damaged: tfrecords.Damaged) -> Files:
        return dataclasses.replace(self, origin=list(files), damaged=damaged)


class Mixed(RowSource):
    """A mix of several sets of files; see `mixing`."""

    flag = "--train_mix"
    origin: Mix

    @property
    def files(self) -> list[str]:
        return self.origin.files

    @property
    def parts(self) -> list[list[str]]:
        return [list(part.files) for part in self.origin.parts]

    @property
    def keeps_runs(self) -> bool:
        return False

    def skips(self, rows: int) -> list[int]:
        return self.origin.skips(rows)[0]

    def batches(self, shard: Shard, span: Span, size: int) -> tf.data.Dataset:
        mix = self.origin
        if span.epochs is not None and not span.rows:
            raise ValueError("epochs of a mix need the rows of an epoch of each part")
        skips, rest = mix.skips(span.skip)
        streams = [
            shuffling.epochs(one_epoch, Span(skip, rows=rows), empty)
            for (one_epoch, empty), skip, rows in zip(
                (self.epochs(part.files, shard, size) for part in mix.parts),
                skips,
                [[rows] for rows in span.rows] or [[]] * len(mix.parts),
            )
        ]
        rows = shuffling.without_first_rows(mixing.in_rounds(streams, mix), rest)
        if span.epochs is not None:
            total = sum(rows_of_epochs(own, span.epochs) for own in span.rows)
            rows = shuffling.first_rows(rows, total - span.skip)
        return _cut_into_batches(rows, span, size)

    def log_counts(self, counts: Sequence[RowCounts]) -> None:
        total = sum(part.kept[0] for part in counts)
        for part, own in zip(self.origin.parts, counts):
            share = part.share / self.origin.round
            _log.info(
                "%s: %s: %.1f%% of the stream, its %s rows read %.2f times an epoch",
                self.flag,
                part.pattern,
                100 * share,
                f"{own.kept[0]:,}",
                share * total / own.kept[0],
            )

    def only(self, files: Sequence[str], damaged: tfrecords.Damaged) -> Mixed:
        mix = self.origin.only(files, self.flag)
        return dataclasses.replace(self, origin=mix, damaged=damaged)

    def identity(self) -> dict[str, Any]:
        parts = self.origin.parts
        names = [list(file_systems.canonical_of(part.files).values()) for part in parts]
        return {"mix": [(own, part.share) for own, part in zip(names, parts)]}


class OfFunction(RowSource):
    """The rows that a user's function gives, read as one file with these rows."""

    flag = "--input_fn"
    origin: OwnRows

    @property
    def files(self) -> list[str]:
        return []

    @property
    def is_selected(self) -> bool:
        return False  # The rows may never end, so they are counted only if it is asked for.

    def open(self, paths: Sequence[str], records: Shard, cut: Cut) -> shuffling.OneEpoch:
        return lambda _: self.origin.dataset(self.selection, records, cut=cut)

    def count(self, shard: Shard, skip: int = 0, epochs: Optional[int] = None) -> list[RowCounts]:
        more_than = skip if epochs is None else None
        return [self.origin.count(self.selection, shard, more_than=more_than)]

    def identity(self) -> dict[str, Any]:
        return self.origin.identity()


def places_of(path: str) -> Optional[Blocks]:
    """The blocks of a TFRecord file; None if only reading it tells where they are."""
    count, places = file_lengths.count(path), file_lengths.places(path, tfrecords.BLOCK)
    if count is None or places is None:
        return None
    offsets = np.array([offset for offset, _ in places], np.int64)
    first = tfrecords.BLOCK * np.arange(len(offsets))
    return Blocks(path, offsets, np.minimum(count - first, tfrecords.BLOCK))


def _cut_into_batches(rows: tf.data.Dataset, span: Span, size: int) -> tf.data.Dataset:
    # If the data have no end, all batches have the same size. TensorFlow then knows this size,
    # which saves some hundred operations on shapes in each step.
    return rows.rebatch(size, drop_remainder=span.epochs is None)
