"""input_fns: read records and return the batches for an Estimator's modes.

The pipeline batches first and parses later. It moves serialized rows in blocks, cuts them into
batches, and parses and transforms each whole batch, in parallel and ahead of the model.

    train_input_fn(spec, files, batch_size=512, seed=1)()   # a tf.data.Dataset

What a training reads is a source (`reading.sources`): files, a mix, the rows of a function, or
cached rows. `training_batches` takes any of them.

The pipeline never repeats a row within an epoch. It drops only the rows that the spec's `filter`
and negative down-sampling select (`selection`). It never hides an error: a record that cannot be
parsed stops the run, and `diagnosis` then finds the record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.eager import as_written
from input_pipelines.reading import row_groups
from input_pipelines.reading.selection import Selection
from input_pipelines.reading.shuffling import Span
from input_pipelines.reading.sources import Files, Source
from input_pipelines.record_files import tfrecords
from input_pipelines.record_files.sharding import Shard
from input_pipelines.row_cache.cache import RowCache, check_cacheable
from input_pipelines.transform import record_parsing
from input_pipelines.transform.transforms import Transform

InputFn = Callable[..., tf.data.Dataset]

PREFETCHED_BATCHES = 4

# The label, a bool scalar, that is true for a padding batch: its rows were read before.
PADDING = "estimator_kit/padding"


def train_input_fn(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    batch_size: int,
    seed: int = 1,
    epochs: Optional[int] = None,
    shuffle: bool = True,
) -> InputFn:
    """Shuffled batches for training, with the rows that pass the spec's `filter`.

    If several workers train, each one reads its part of the records: the input_fn takes their
    number and its own from the `input_context` of a `tf.distribute.Strategy`.

    Args:
      spec: the feature spec.
      files: TFRecord files. Their order does not matter.
      batch_size: the rows of a batch. A batch may contain rows of two epochs; only the very last
        batch may be smaller. If rows are kept together, this is the average size of a batch.
      seed: the order of rows depends on the seed and the epoch.
      epochs: how often each row is read; None repeats without end.
      shuffle: False keeps the order of the files.

    Returns:
      An input_fn whose dataset returns `(features, labels)` like `Transform.features_and_labels`.
    """
    source = Files(spec, list(files), seed=seed, shuffle=shuffle)
    return training_batches(source, batch_size=batch_size, span=Span(epochs=epochs))


def training_batches(
    source: Source,
    *,
    batch_size: int,
    span: Span,
    shard: Shard = Shard(),
    pad: bool = False,
) -> InputFn:
    """The batches of a source of rows, as the input of a training.

    Args:
      source: the rows and their order; see `sources`.
      batch_size: see `train_input_fn`.
      span: the epochs, and the rows that an interrupted run has already read.
      shard: the part of the records that this worker reads.
      pad: if True and the span ends, the first batch is repeated without end after the last one.
        This is for workers that train in step with workers that have more rows. Padding batches
        have no weight: the labels have an additional entry `PADDING`, a bool scalar.

    Returns:
      An input_fn as `train_input_fn` returns it. With negatives, each label has a `<label>/weight`.
    """

    def input_fn(input_context: Optional[Any] = None) -> tf.data.Dataset:
        part = shard
        if input_context is not None:
            part = Shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return batches_of(part)

    @as_written
    def batches_of(part: Shard) -> tf.data.Dataset:
        batches, read = source.batches(part, span, batch_size), source.reader(part)
        if not pad or span.epochs is None:
            return transformed(batches, read)
        span_from_start = dataclasses.replace(span, skip=0)
        first = source.batches(part, span_from_start, batch_size).take(1).cache().repeat()
        own, again = (
            some.map(lambda *batch, is_again=is_again: (*batch, is_again))
            for some, is_again in ((batches, False), (first, True))
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
    only the good records are read. `cache` stores transformed rows; see `row_cache`.
    """
    if cache is not None:
        check_cacheable(spec)

    @as_written
    def input_fn() -> tf.data.Dataset:
        if cache is not None:
            cached = cache.rows(spec)
            ordered = file_systems.ordered(files)
            blocks = cached.blocks(ordered, interleaved=False, damaged=damaged)
            batches = blocks.rebatch(batch_size)
            if limit is not None:
                batches = batches.take(limit)
            return transformed(batches, cached.layout.unpack)
        batches = eval_records(spec, files, batch_size=batch_size, limit=limit, damaged=damaged)
        options = tf.data.Options()
        # tf.data would rewrite the graph at the start of each evaluation, which gains nothing here
        # and is a quarter of the start with 190 columns.
        options.experimental_optimization.apply_default_optimizations = False
        return transformed(batches, Transform(spec).features_and_labels).with_options(options)

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
        file_systems.ordered(files), cut_into_runs=_cut(spec, batch_size), damaged=damaged
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


def _cut(
    spec: FeatureSpec, batch_size: int
) -> Optional[Callable[[tf.data.Dataset], tf.data.Dataset]]:
    """The function that cuts a file into blocks; None if blocks may be cut anywhere."""
    if spec.kept_together is None:
        return None
    return row_groups.runs_of_a_file(spec, longest=batch_size)


def transformed(
    batches: tf.data.Dataset, function: Callable[..., Any], *, deterministic: bool = True
) -> tf.data.Dataset:
    """Applies a function to batches, in parallel and ahead of the model."""
    mapped = batches.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=deterministic)
    options = tf.data.Options()
    # A separate thread pool (0: one thread for each core). With a shared one, parsing and the model
    # would wait for each other.
    options.threading.private_threadpool_size = 0
    # Autotuning measures every element. Without it, the input alone is a tenth faster.
    options.autotune.enabled = False
    return mapped.prefetch(PREFETCHED_BATCHES).with_options(options)
