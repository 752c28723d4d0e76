"""input_fns: from TFRecord files to the batches that an Estimator trains, scores and predicts on.

Batch first, parse after: the pipeline moves serialized rows in blocks, cuts them into batches, and
parses and transforms each batch at once, in parallel and ahead of the model.

    train_input_fn(spec, files, batch_size=512, seed=1)()   # a tf.data.Dataset

Rows of a spec with an objective of the head `ranking` come in whole runs of their group; see
`row_groups`. Such a spec may have a `filter`; it goes with no mix and no negative down-sampling.

Never repeats a row within an epoch, drops none but those that the spec's `filter` and negative
down-sampling say (`selection`), and never hides an error: a record that cannot be parsed stops the
run (`diagnosis` then says which it was).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

import tensorflow as tf

from feature_specs.spec import FeatureSpec
from input_pipelines.autograph import as_written
from input_pipelines.reading import row_groups, shuffling
from input_pipelines.reading.mixing import Mix, in_rounds
from input_pipelines.reading.selection import Negatives, Selection
from input_pipelines.reading.shuffling import RowsAnEpoch, rows_of_epochs
from input_pipelines.record_files import tfrecords
from input_pipelines.record_files.sharding import Shard
from input_pipelines.row_cache.cache import CachedRows, RowCache
from input_pipelines.transform import record_kind
from input_pipelines.transform.transforms import Transform

InputFn = Callable[..., tf.data.Dataset]

PREFETCHED_BATCHES = 4

# The label, a bool scalar, that is true for a batch of rows that were read before.
PADDING = "estimator_kit/padding"


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
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    cache: Optional[RowCache] = None,
    sizes: Optional[Mapping[str, int]] = None,
    pad: bool = False,
) -> InputFn:
    """Shuffled batches for training, of the rows that pass the spec's `filter`.

    Args:
      spec: the feature spec.
      files: TFRecord files, sorted here; or a mix of several sets of them.
      batch_size: rows a batch. Batches run on over the end of an epoch; only the very last one
        may be smaller. Where rows are kept together, it is a batch's size on average.
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
      damaged: files of which only the good records are read; see `tfrecords.blocks`.
      cache: where transformed rows are kept; for the specs and selections of `check_cacheable`. The
        batches are the same with it and without, but for the last bit of a logarithm, which in
        TensorFlow depends on a row's place in its batch.
      sizes: the bytes of each file, by which they are dealt out to shards; see `Shard.deal`.
      pad: with `epochs`, whether the first batch follows the last one, again and again, for those
        that train together with others who have more rows. It has no weight then: the labels have
        a further entry `PADDING`, a bool scalar.

    Returns:
      An input_fn whose dataset gives `(features, labels)` as `Transform.features_and_labels` does.
      With `negatives`, each label has a `<label>/weight`.
    """
    if skip_rows and not rows_an_epoch:
        raise ValueError("skip_rows needs rows_an_epoch, to know which epoch the rows are in")
    if isinstance(files, Mix) and epochs is not None and not rows_an_epoch:
        raise ValueError("epochs of a mix need rows_an_epoch, of each part")
    runs = spec.kept_together is not None
    if runs and (isinstance(files, Mix) or negatives is not None):
        raise ValueError(
            f"rows of one {spec.kept_together!r} are kept together for the head ranking, which "
            "neither a mix nor negative down-sampling does"
        )
    selection = Selection(spec, negatives=negatives, seed=seed)
    if cache is not None:
        check_cacheable(spec, mixed=isinstance(files, Mix), negatives=negatives)

    def epochs_of(
        paths: Sequence[str], part: Shard, cached: Optional[CachedRows] = None
    ) -> tuple[Callable[[tf.Tensor], tf.data.Dataset], str]:
        """Makes an epoch from its number; and what to say of one without a row."""
        own_files, records = part.deal(paths, sizes, whole=runs)
        if runs and records.count > 1:
            raise ValueError(
                f"{records.count} workers read {len(paths)} files, whose records would be dealt "
                f"out one by one, and rows of one {spec.kept_together!r} are to stay together; "
                "give each worker a file at least"
            )
        cut = _cut(spec, batch_size)
        mixed = row_groups.shuffled_runs if runs else shuffling.shuffled_epoch

        def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
            if cached is not None:
                blocks = cached.blocks(interleaved=shuffle)
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
            assert not isinstance(files, Mix)
            cached = cache.rows(spec, *part.deal(files, sizes), damaged=damaged)

        def batches(skip: int, count: Optional[int]) -> tf.data.Dataset:
            if runs:
                assert not isinstance(files, Mix)
                return batches_of_runs(files, part, skip, count)
            if isinstance(files, Mix):
                rows = rows_of_mix(files, part, skip, count)
            else:
                rows = rows_of(files, part, skip, rows_an_epoch, count, cached)
            # Without an end no batch is smaller. TensorFlow then knows how many rows one has, and
            # a step needs some hundred operations on shapes less.
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
    """Every row that passes the spec's `filter` once, in the order of the files.

    Gives `(features, labels)`. `limit` ends after so many batches; of files in `damaged` only the
    good records are read; `cache` is as of `train_input_fn`.
    """
    if cache is not None:
        check_cacheable(spec)

    @as_written
    def input_fn() -> tf.data.Dataset:
        if cache is not None:
            cached = cache.rows(spec, sorted(files), damaged=damaged)
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
    blocks = Selection(spec).blocks(sorted(files), cut=_cut(spec, batch_size), damaged=damaged)
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
    """Every row once, in the order of the files, features alone; labels need not be there."""

    @as_written
    def input_fn() -> tf.data.Dataset:
        batches = tfrecords.blocks(sorted(files), damaged=damaged).rebatch(batch_size)
        transform = Transform(spec)
        return transformed(
            batches, lambda batch: transform.features(record_kind.checked(spec, batch))
        )

    return input_fn


def check_cacheable(
    spec: FeatureSpec, *, mixed: bool = False, negatives: Optional[Negatives] = None
) -> None:
    """Whether transformed rows can be kept for later: raises ValueError, saying what forbids it."""
    if spec.kept_together is not None:
        raise ValueError(f"the head ranking has rows of one {spec.kept_together!r} read together")
    if mixed:
        raise ValueError("the rows of a mix (--train_mix) are taken one by one from its parts")
    if negatives is not None:
        raise ValueError("each epoch keeps other negatives (--keep_negatives)")


def _cut(
    spec: FeatureSpec, batch_size: int
) -> Optional[Callable[[tf.data.Dataset], tf.data.Dataset]]:
    """How the records of a file are cut into blocks; None for anyhow."""
    if spec.kept_together is None:
        return None
    return row_groups.runs_of_a_file(spec, longest=batch_size)


def training_rows(spec: FeatureSpec, selection: Selection) -> Callable[[tf.Tensor], Any]:
    """Makes `(features, labels)`, with the weights of `selection`, of a batch of records."""
    transform = Transform(spec)

    def rows(batch: tf.Tensor) -> Any:
        features, labels = transform.features_and_labels(batch)
        return features, selection.weigh(labels)

    return rows


def transformed(
    batches: tf.data.Dataset, function: Callable[..., Any], *, deterministic: bool = True
) -> tf.data.Dataset:
    """What a function makes of batches, in parallel and ahead of the model."""
    made = batches.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=deterministic)
    options = tf.data.Options()
    # Threads of its own (0: one a core); otherwise parsing and the model wait for each other.
    options.threading.private_threadpool_size = 0
    # Tuning takes the time of every record; without it the input alone is a tenth faster.
    options.autotune.enabled = False
    return made.prefetch(PREFETCHED_BATCHES).with_options(options)
