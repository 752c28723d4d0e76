"""input_fns: read TFRecord files and return the batches for an Estimator's modes.

The pipeline batches first and parses later. It moves serialized rows in blocks, cuts them into
batches, and parses and transforms each whole batch, in parallel and ahead of the model.

    train_input_fn(spec, files, batch_size=512, seed=1)()   # a tf.data.Dataset

If a spec has an objective with the head `ranking`, rows come in whole runs of their group; see
`row_groups`. Such a spec may have a `filter`, but allows no mix and no negative down-sampling.

The pipeline never repeats a row within an epoch. It drops only the rows that the spec's `filter`
and negative down-sampling select (`selection`). It never hides an error: a record that cannot be
parsed stops the run, and `diagnosis` then finds the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.eager import as_written
from input_pipelines.reading import row_groups, shuffling
from input_pipelines.reading.mixing import Mix, in_rounds
from input_pipelines.reading.own_rows import OwnRows
from input_pipelines.reading.selection import Negatives, Selection
from input_pipelines.reading.shuffling import RowsAnEpoch, rows_of_epochs
from input_pipelines.record_files import tfrecords
from input_pipelines.record_files.sharding import Shard
from input_pipelines.row_cache.cache import CachedRows, RowCache
from input_pipelines.transform import record_parsing
from input_pipelines.transform.transforms import Transform

InputFn = Callable[..., tf.data.Dataset]

PREFETCHED_BATCHES = 4

# The label, a bool scalar, that is true for a padding batch: its rows were read before.
PADDING = "estimator_kit/padding"


def train_input_fn(
    spec: FeatureSpec,
    files: Union[Sequence[str], Mix, OwnRows],
    *,
    batch_size: int,
    seed: int = 1,
    epochs: Optional[int] = None,
    shuffle: bool = True,
    shard: Shard = Shard(),
    skip_rows: int = 0,
    rows_an_epoch: Union[RowsAnEpoch, Sequence[RowsAnEpoch], None] = None,
    negatives: Optional[Negatives] = None,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    cache: Optional[RowCache] = None,
    sizes: Optional[Mapping[str, int]] = None,
    pad: bool = False,
) -> InputFn:
    """Shuffled batches for training, with the rows that pass the spec's `filter`.

    Args:
      spec: the feature spec.
      files: TFRecord files, which are sorted here; or a mix of several sets of files; or the rows
        of a function, which are read as one file with these rows.
      batch_size: the rows of a batch. A batch may contain rows of two epochs; only the very last
        batch may be smaller. If rows are kept together, this is the average size of a batch.
      seed: the order of rows depends on the seed and the epoch.
      epochs: how often each row is read; None repeats without end. An epoch of a mix has as many
        rows as all its parts together (see `mixing`).
      shuffle: False keeps the order of the files.
      shard: the part of the records that this worker reads.
      skip_rows: rows of this shard that an interrupted run has already read.
      rows_an_epoch: how many rows of this shard are kept, as `Selection.count` returns them: a
        number for every epoch, or one number for each epoch up to the one in which `skip_rows`
        ends. For a mix, a list with this value for each part. Required with `skip_rows`, and for
        `epochs` of a mix.
      negatives: negative down-sampling.
      damaged: files of which only the good records are read; see `tfrecords.blocks`.
      cache: stores transformed rows. See `check_cacheable` for what it supports. The cache does not
        change the batches, except for the last bit of a logarithm, which in TensorFlow depends on a
        row's place in its batch.
      sizes: the bytes of each file, used to divide files among shards; see `Shard.deal`.
      pad: if True and `epochs` is set, the first batch is repeated without end after the last one.
        This is for workers that train in step with workers that have more rows. Padding batches
        have no weight: the labels have an additional entry `PADDING`, a bool scalar.

    Returns:
      An input_fn whose dataset returns `(features, labels)` like `Transform.features_and_labels`.
      With `negatives`, each label has a `<label>/weight`.
    """
    if skip_rows and not rows_an_epoch:
        raise ValueError("skip_rows needs rows_an_epoch, to know in which epoch the rows are")
    if isinstance(files, Mix) and epochs is not None and not rows_an_epoch:
        raise ValueError("epochs of a mix need rows_an_epoch, with one entry for each part")
    runs = spec.kept_together is not None
    if runs and (isinstance(files, Mix) or negatives is not None):
        raise ValueError(
            f"rows of one {spec.kept_together!r} are kept together for the head ranking, so they "
            "allow no mix and no negative down-sampling"
        )
    every = files.files if isinstance(files, (Mix, OwnRows)) else files
    selection = Selection(spec, negatives=negatives, seed=seed, of=every)
    if cache is not None:
        check_cacheable(spec, mixed=isinstance(files, Mix), negatives=negatives)

    def epochs_of(
        paths: Sequence[str], part: Shard, cached: Optional[CachedRows] = None
    ) -> tuple[Callable[[tf.Tensor], tf.data.Dataset], str]:
        """A function that makes an epoch from its number, and the error for an empty epoch."""
        of_function = files if isinstance(files, OwnRows) else None
        own_files, records = part.deal(paths, sizes, whole=runs)
        if runs and records.count > 1:
            raise ValueError(
                f"{records.count} workers cannot share {len(paths)} files, because rows of one "
                f"{spec.kept_together!r} must stay together. Write at least one file for each "
                "worker"
            )
        cut = _cut(spec, batch_size)
        mixed = row_groups.shuffled_runs if runs else shuffling.shuffled_epoch

        def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
            if cached is not None:
                blocks = cached.blocks(interleaved=shuffle)
            elif of_function is not None:
                blocks = of_function.dataset(selection, records, cut=cut)
            else:
                blocks = selection.blocks(
                    own_files, records, epoch=number, interleaved=shuffle, cut=cut, damaged=damaged
                )
            return mixed(blocks, seed, number) if shuffle else blocks

        worker = "the input"
        if part.count > 1:
            worker = f"this worker ({part.index + 1} of {part.count})"
        why = "; train with fewer workers" if part.count > 1 else ""
        why = " that is kept" if selection.any else why
        return one_epoch, f"an epoch of {worker} holds no record{why}"

    def rows_of(
        paths: Sequence[str],
        part: Shard,
        skip: int,
        rows: Any,
        count: Optional[int],
        cached: Optional[CachedRows] = None,
    ) -> tf.data.Dataset:
        one_epoch, empty = epochs_of(paths, part, cached)
        return shuffling.epochs(
            one_epoch, rows_an_epoch=rows, skip_rows=skip, count=count, empty=empty
        )

    def rows_of_mix(mix: Mix, part: Shard, skip: int, count: Optional[int]) -> tf.data.Dataset:
        counts: Any = rows_an_epoch or [None] * len(mix.parts)
        skips, rest = mix.skips(skip)
        streams = [
            rows_of(entry.files, part, own, rows, None)
            for entry, own, rows in zip(mix.parts, skips, counts)
        ]
        rows = shuffling.without_first_rows(in_rounds(streams, mix), rest)
        if count is not None:
            total = sum(rows_of_epochs(own, count) for own in counts)
            rows = shuffling.first_rows(rows, total - skip)
        return rows

    def batches_of_runs(
        paths: Sequence[str], part: Shard, skip: int, count: Optional[int]
    ) -> tf.data.Dataset:
        one_epoch, empty = epochs_of(paths, part)
        rows: Any = rows_an_epoch
        return row_groups.epochs(
            one_epoch,
            batch_size=batch_size,
            rows_an_epoch=rows,
            skip_rows=skip,
            count=count,
            empty=empty,
        )

    def input_fn(input_context: Optional[Any] = None) -> tf.data.Dataset:
        part = shard
        if input_context is not None:
            part = Shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return batches_of(part)

    @as_written
    def batches_of(part: Shard) -> tf.data.Dataset:
        cached: Optional[CachedRows] = None
        if cache is not None:
            assert not isinstance(files, (Mix, OwnRows))
            cached = cache.rows(spec, *part.deal(files, sizes), damaged=damaged)

        def batches(skip: int, count: Optional[int]) -> tf.data.Dataset:
            if runs:
                return batches_of_runs(every, part, skip, count)
            if isinstance(files, Mix):
                rows = rows_of_mix(files, part, skip, count)
            else:
                rows = rows_of(every, part, skip, rows_an_epoch, count, cached)
            # If the data have no end, all batches have the same size. TensorFlow then knows this
            # size, which saves some hundred operations on shapes in each step.
            return rows.rebatch(batch_size, drop_remainder=count is None)

        read = training_rows(spec, selection) if cached is None else cached.layout.unpack
        if not pad or epochs is None:
            return transformed(batches(skip_rows, epochs), read)
        first = batches(0, epochs).take(1).cache().repeat()
        own, again = (
            part.map(lambda *batch, is_again=is_again: (*batch, is_again))
            for part, is_again in ((batches(skip_rows, epochs), False), (first, True))
        )

        def marked(*batch: tf.Tensor) -> Any:
            features, labels = read(*batch[:-1])
            return features, {**labels, PADDING: batch[-1]}

        return transformed(own.concatenate(again), marked)

    return input_fn


def eval_input_fn(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    batch_size: int,
    limit: Optional[int] = None,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    cache: Optional[RowCache] = None,
) -> InputFn:
    """Each row that passes the spec's `filter`, once and in the order of the files.

    Batches are `(features, labels)`. `limit` is the most batches to return. Of files in `damaged`,
    only the good records are read. For `cache`, see `train_input_fn`.
    """
    if cache is not None:
        check_cacheable(spec)

    @as_written
    def input_fn() -> tf.data.Dataset:
        if cache is not None:
            cached = cache.rows(spec, file_systems.ordered(files), damaged=damaged)
            batches = cached.blocks(interleaved=False).rebatch(batch_size)
            if limit is not None:
                batches = batches.take(limit)
            return transformed(batches, cached.layout.unpack)
        batches = eval_records(spec, files, batch_size=batch_size, limit=limit, damaged=damaged)
        return transformed(batches, Transform(spec).features_and_labels)

    return input_fn


@as_written
def eval_records(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    batch_size: int,
    limit: Optional[int] = None,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> tf.data.Dataset:
    """The batches of `eval_input_fn` as serialized records."""
    blocks = Selection(spec).blocks(
        file_systems.ordered(files), cut=_cut(spec, batch_size), damaged=damaged
    )
    if spec.kept_together is not None:
        batches = row_groups.whole_batches(blocks, batch_size)
    else:
        batches = blocks.rebatch(batch_size)
    return batches if limit is None else batches.take(limit)


def predict_input_fn(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    batch_size: int,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> InputFn:
    """Each row of the files, in the order that is given. Only features; records may lack labels."""

    @as_written
    def input_fn() -> tf.data.Dataset:
        batches = tfrecords.blocks(files, damaged=damaged).rebatch(batch_size)
        transform = Transform(spec)
        return transformed(
            batches, lambda batch: transform.features(record_parsing.checked(spec, batch))
        )

    return input_fn


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


def _cut(
    spec: FeatureSpec, batch_size: int
) -> Optional[Callable[[tf.data.Dataset], tf.data.Dataset]]:
    """The function that cuts a file into blocks; None if blocks may be cut anywhere."""
    if spec.kept_together is None:
        return None
    return row_groups.runs_of_a_file(spec, longest=batch_size)


def training_rows(spec: FeatureSpec, selection: Selection) -> Callable[[tf.Tensor], Any]:
    """A function from records to `(features, labels)`, with the weights of `selection`."""
    transform = Transform(spec)

    def rows(batch: tf.Tensor) -> Any:
        features, labels = transform.features_and_labels(batch)
        return features, selection.weigh(labels)

    return rows


def transformed(
    batches: tf.data.Dataset, function: Callable[..., Any], *, deterministic: bool = True
) -> tf.data.Dataset:
    """Applies a function to batches, in parallel and ahead of the model."""
    made = batches.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=deterministic)
    options = tf.data.Options()
    # A separate thread pool (0: one thread for each core). With a shared one, parsing and the model
    # would wait for each other.
    options.threading.private_threadpool_size = 0
    # Autotuning measures every element. Without it, the input alone is a tenth faster.
    options.autotune.enabled = False
    return made.prefetch(PREFETCHED_BATCHES).with_options(options)
