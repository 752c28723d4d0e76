"""input_fns: from TFRecord files to the batches that an Estimator trains, scores and predicts on.

Batch first, parse after: the pipeline moves serialized rows in blocks, cuts them into batches, and
parses and transforms each batch at once, in parallel and ahead of the model.

    train_input_fn(spec, files, batch_size=512, seed=1)()   # a tf.data.Dataset

Rows of a spec with an objective of the head `ranking` come in whole runs of their group; see
`row_groups`.

Never drops or repeats a row within an epoch, and never hides an error: a record that cannot be
parsed stops the run (`diagnosis` then says which it was).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from feature_specs.schema import FeatureSpec
from input_pipelines import row_groups, shuffling, tfrecords
from input_pipelines.sharding import Shard
from input_pipelines.transforms import Transform

InputFn = Callable[..., tf.data.Dataset]

_PREFETCHED_BATCHES = 4


def train_input_fn(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    batch_size: int,
    seed: int = 1,
    epochs: Optional[int] = None,
    shuffle: bool = True,
    shard: Shard = Shard(),
    skip_rows: int = 0,
    rows_an_epoch: Optional[int] = None,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> InputFn:
    """Shuffled batches for training.

    Args:
      spec: the feature spec.
      files: TFRecord files; sorted here.
      batch_size: rows a batch. Batches run on over the end of an epoch; only the very last one
        may be smaller. Where rows are kept together, it is a batch's size on average.
      seed: the order of rows is a function of it and of the epoch.
      epochs: how often each row is read, or None for no end.
      shuffle: False keeps the order of the files.
      shard: the part that this worker reads.
      skip_rows: rows of this shard that a run before an interruption has already read.
      rows_an_epoch: rows of this shard, as `tfrecords.count_records` gives them; needed with
        `skip_rows`.
      damaged: files of which only the good records are read; see `tfrecords.blocks`.

    Returns:
      An input_fn whose dataset gives `(features, labels)` as `Transform.features_and_labels` does.
    """
    if skip_rows and not rows_an_epoch:
        raise ValueError("skip_rows needs rows_an_epoch, to know which epoch the rows are in")

    def input_fn(input_context: Optional[Any] = None) -> tf.data.Dataset:
        part = shard
        if input_context is not None:
            part = Shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        own_files, records = part.deal(files)
        runs = spec.kept_together is not None
        if runs and records.count > 1:
            raise ValueError(
                f"{records.count} workers read {len(files)} files, whose records would be dealt "
                f"out one by one, and rows of one {spec.kept_together!r} are to stay together; "
                "give each worker a file at least"
            )
        cut = _cut(spec, batch_size)

        def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
            if not shuffle:
                return tfrecords.blocks(own_files, records, cut=cut, damaged=damaged)
            blocks = tfrecords.blocks(
                own_files, records, interleaved=True, cut=cut, damaged=damaged
            )
            mix = row_groups.shuffled_runs if runs else shuffling.shuffled_epoch
            return mix(blocks, seed, number)

        if runs:
            batches = row_groups.epochs(
                one_epoch, batch_size=batch_size, rows_an_epoch=rows_an_epoch,
                skip_rows=skip_rows, count=epochs,
            )  # fmt: skip
        else:
            batches = shuffling.epochs(
                one_epoch, rows_an_epoch=rows_an_epoch, skip_rows=skip_rows, count=epochs
            ).rebatch(batch_size)
        return _transformed(batches, Transform(spec).features_and_labels)

    return input_fn


def eval_input_fn(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    batch_size: int,
    limit: Optional[int] = None,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> InputFn:
    """Every row once, in the order of the files, as `(features, labels)`.

    `limit` ends after so many batches; of files in `damaged` only the good records are read.
    """

    def input_fn() -> tf.data.Dataset:
        blocks = tfrecords.blocks(sorted(files), cut=_cut(spec, batch_size), damaged=damaged)
        if spec.kept_together is not None:
            batches = row_groups.whole_batches(blocks, batch_size)
        else:
            batches = blocks.rebatch(batch_size)
        if limit is not None:
            batches = batches.take(limit)
        return _transformed(batches, Transform(spec).features_and_labels)

    return input_fn


def predict_input_fn(
    spec: FeatureSpec,
    files: Sequence[str],
    *,
    batch_size: int,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> InputFn:
    """Every row once, in the order of the files, features alone; labels need not be there."""

    def input_fn() -> tf.data.Dataset:
        batches = tfrecords.blocks(sorted(files), damaged=damaged).rebatch(batch_size)
        return _transformed(batches, Transform(spec).features)

    return input_fn


def _cut(
    spec: FeatureSpec, batch_size: int
) -> Optional[Callable[[tf.data.Dataset], tf.data.Dataset]]:
    """How the records of a file are cut into blocks; None for anyhow."""
    if spec.kept_together is None:
        return None
    return row_groups.runs_of_a_file(spec, longest=batch_size)


def _transformed(batches: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    parsed = batches.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    # Threads of its own (0: one a core); otherwise parsing and the model wait for each other.
    options = tf.data.Options()
    options.threading.private_threadpool_size = 0
    return parsed.prefetch(_PREFETCHED_BATCHES).with_options(options)
