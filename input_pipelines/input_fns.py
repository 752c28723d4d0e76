"""input_fns: from TFRecord files to the batches that an Estimator trains, scores and predicts on.

Batch first, parse after: the pipeline moves serialized rows in blocks, cuts them into batches, and
parses and transforms each batch at once, in parallel and ahead of the model.

    train_input_fn(spec, files, batch_size=512, seed=1)()   # a tf.data.Dataset

Never repeats a row within an epoch, drops none but those that the spec's `filter` and negative
down-sampling say (`selection`), and never hides an error: a record that cannot be parsed stops the
run (`diagnosis` then says which it was).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from feature_specs.schema import FeatureSpec
from input_pipelines import shuffling, tfrecords
from input_pipelines.mixing import Mix, in_rounds
from input_pipelines.selection import Negatives, Selection
from input_pipelines.sharding import Shard
from input_pipelines.shuffling import RowsAnEpoch, rows_of_epochs
from input_pipelines.transforms import Transform

InputFn = Callable[..., tf.data.Dataset]

_PREFETCHED_BATCHES = 4


def train_input_fn(
    spec: FeatureSpec,
    files: Union[Sequence[str], Mix],
    *,
    batch_size: int,
    seed: int = 1,
    epochs: Optional[int] = None,
    shuffle: bool = True,
    shard: Shard = Shard(),
    skip_rows: int = 0,
    rows_an_epoch: Union[RowsAnEpoch, Sequence[RowsAnEpoch], None] = None,
    negatives: Optional[Negatives] = None,
) -> InputFn:
    """Shuffled batches for training, of the rows that pass the spec's `filter`.

    Args:
      spec: the feature spec.
      files: TFRecord files, sorted here; or a mix of several sets of them.
      batch_size: rows a batch. Batches run on over the end of an epoch; only the very last one
        may be smaller.
      seed: the order of rows is a function of it and of the epoch.
      epochs: how often each row is read, or None for no end. An epoch of a mix is as many rows as
        its parts have together (see `mixing`).
      shuffle: False keeps the order of the files.
      shard: the part that this worker reads.
      skip_rows: rows of this shard that a run before an interruption has already read.
      rows_an_epoch: rows of this shard that are kept, as `Selection.count` gives them: a number,
        or one for each epoch up to the one that `skip_rows` ends in. Of a mix, that of each part.
        Needed with `skip_rows`, and for `epochs` of a mix.
      negatives: negative down-sampling.

    Returns:
      An input_fn whose dataset gives `(features, labels)` as `Transform.features_and_labels` does.
      With `negatives`, each label has a `<label>/weight`.
    """
    if skip_rows and not rows_an_epoch:
        raise ValueError("skip_rows needs rows_an_epoch, to know which epoch the rows are in")
    if isinstance(files, Mix) and epochs is not None and not rows_an_epoch:
        raise ValueError("epochs of a mix need rows_an_epoch, of each part")
    selection = Selection(spec, negatives=negatives, seed=seed)

    def stream(
        paths: Sequence[str], part: Shard, skip: int, rows: Any, count: Optional[int]
    ) -> tf.data.Dataset:
        own_files, records = part.deal(paths)

        def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
            blocks = selection.blocks(own_files, records, epoch=number, interleaved=shuffle)
            return shuffling.shuffled_epoch(blocks, seed, number) if shuffle else blocks

        worker = "the input"
        if part.count > 1:
            worker = f"this worker ({part.index + 1} of {part.count})"
        why = " that is kept" if selection.any else "; train with fewer workers" * (part.count > 1)
        return shuffling.epochs(
            one_epoch, rows_an_epoch=rows, skip_rows=skip, count=count,
            empty=f"an epoch of {worker} holds no record{why}",
        )  # fmt: skip

    def input_fn(input_context: Optional[Any] = None) -> tf.data.Dataset:
        part = shard
        if input_context is not None:
            part = Shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        if isinstance(files, Mix):
            counts: Any = rows_an_epoch or [None] * len(files.parts)
            skips, rest = files.skips(skip_rows)
            streams = [
                stream(entry.files, part, skip, rows, None)
                for entry, skip, rows in zip(files.parts, skips, counts)
            ]
            rows = shuffling.without_first_rows(in_rounds(streams, files), rest)
            if epochs is not None:
                total = sum(rows_of_epochs(own, epochs) for own in counts)
                rows = shuffling.first_rows(rows, total - skip_rows)
        else:
            rows = stream(files, part, skip_rows, rows_an_epoch, epochs)
        transform = Transform(spec)

        def transformed(batch: tf.Tensor) -> Any:
            features, labels = transform.features_and_labels(batch)
            return features, selection.weigh(labels)

        return _transformed(rows.rebatch(batch_size), transformed)

    return input_fn


def eval_input_fn(
    spec: FeatureSpec, files: Sequence[str], *, batch_size: int, limit: Optional[int] = None
) -> InputFn:
    """Every row that passes the spec's `filter` once, in the order of the files.

    Gives `(features, labels)`. `limit` ends after so many batches.
    """

    def input_fn() -> tf.data.Dataset:
        batches = Selection(spec).blocks(sorted(files)).rebatch(batch_size)
        if limit is not None:
            batches = batches.take(limit)
        return _transformed(batches, Transform(spec).features_and_labels)

    return input_fn


def predict_input_fn(spec: FeatureSpec, files: Sequence[str], *, batch_size: int) -> InputFn:
    """Every row once, in the order of the files, features alone; labels need not be there."""

    def input_fn() -> tf.data.Dataset:
        batches = tfrecords.blocks(sorted(files)).rebatch(batch_size)
        return _transformed(batches, Transform(spec).features)

    return input_fn


def _transformed(batches: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    parsed = batches.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    # Threads of its own (0: one a core); otherwise parsing and the model wait for each other.
    options = tf.data.Options()
    options.threading.private_threadpool_size = 0
    return parsed.prefetch(_PREFETCHED_BATCHES).with_options(options)
