"""How tables become sharded TFRecord files."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.settings.base import PositiveInt, Settings, setting


class ConversionSettings(Settings):
    """How tables become sharded TFRecord files."""

    heading: ClassVar[str] = "Conversion"

    convert_files: tuple[str, ...] = setting(
        (),
        "The tables to write as TFRecord files, as paths or globs: Parquet (.parquet), CSV "
        "(.csv, .tsv) or JSON lines (.jsonl, .json), all of the same kind. With --spec, the "
        "features and labels of the spec are written with its types, and a row that a training "
        "would refuse is an error. Without --spec, all columns are written.",
        changes="records",
        named=True,
    )
    convert_dir: Optional[str] = setting(
        None,
        "The folder for the shards, with _MANIFEST.json and, at the end, _SUCCESS. If you "
        "start the same command again, it writes the shards that are missing. It never changes "
        "a folder that holds anything else.",
        changes="nothing",
    )
    convert_order: Literal["stable", "shuffled"] = setting(
        "stable",
        "stable: keep the order of the rows in the sorted files. shuffled: put every row into "
        "a random shard, by --seed; until the conversion ends, --convert_dir then needs "
        "additional space for all shards without compression.",
        changes="records",
    )
    convert_processes: Optional[PositiveInt] = setting(
        None,
        "How many processes share the work; by default one for each core. The output does not "
        "depend on it.",
        changes="nothing",
    )
    shard_mib: PositiveInt = setting(
        100,
        "About how many MiB of records each shard has, before compression.",
        changes="records",
    )
    shard_compression: Literal["none", "gzip"] = setting(
        "none",
        "gzip writes .tfrecord.gz files, which are smaller, and slower to write and to read.",
        changes="records",
    )
    split_key: Optional[str] = setting(
        None,
        "Write train-* and eval-* instead of data-*, with all rows that share a value of this "
        "column (such as user_id) on the same side. A hash of the value decides the side, so "
        "it is the same in every conversion with the same --eval_fraction.",
        changes="records",
    )
    split_rows: bool = setting(
        False,
        "Like --split_key, but a hash of the number of each row decides its side. For rows that "
        "do not belong together. Equal rows may be on both sides.",
        changes="records",
    )
    split_time: Optional[Annotated[str, Field(min_length=1)]] = setting(
        None,
        "Like --split_key, but the rows with the latest values of this column are for evaluation: "
        "integers, dates, or times such as 2026-01-31 10:00:00. --eval_from or --eval_fraction "
        "says how many. Rows with the same value are on the same side.",
        changes="records",
    )
    eval_from: Optional[Annotated[str, Field(min_length=1)]] = setting(
        None,
        "With --split_time: the first value that is for evaluation, such as 2026-01-25.",
        changes="records",
    )
    eval_fraction: Optional[Annotated[float, Field(gt=0, lt=1)]] = setting(
        None,
        "The share that is for evaluation, such as 0.1: of the values of --split_key, or of the "
        "rows with --split_rows and --split_time.",
        changes="records",
    )
    step_columns: tuple[str, ...] = setting(
        (),
        "Without --spec: columns of lists whose items are the steps of a sequence. They become "
        "feature lists, and the records become SequenceExamples. Other lists become features "
        "with several values.",
        changes="records",
    )
    derive_labels: tuple[str, ...] = setting(
        (),
        "Labels to make from columns, each with the value 1 or 0: bought=event:equals:buy, "
        "liked=rating:above:3 or bought=event:in:buy|order. A row without a value has no label. A "
        "spec names the label as any other label, with dtype: int64.",
        changes="records",
    )
    sequence_by: Optional[Annotated[str, Field(min_length=1)]] = setting(
        None,
        "Make sequences from a plain log, in which each row is one event. All rows with the same "
        "value of this column, such as user_id, are one history. The log is held in memory.",
        changes="records",
    )
    order_by: Optional[Annotated[str, Field(min_length=1)]] = setting(
        None,
        "With --sequence_by: the column that orders the rows of a history: numbers, dates, or "
        "times such as 2026-01-31 10:00:00. Rows may be in any order in the files. Rows with the "
        "same time stay in the order of the files.",
        changes="records",
    )
    sequence_columns: tuple[str, ...] = setting(
        (),
        "With --sequence_by: the columns that become lists, with one value for each step. The "
        "first one is the item to predict: with item_id, the records have the feature "
        "next_item_id, a list of the same length.",
        changes="records",
    )
    sequence_steps: Optional[PositiveInt] = setting(
        None,
        "With --sequence_by: the most steps of a record, such as 50. A longer history becomes "
        "several records, and each row except for the first one is a target once. By default a "
        "history is one record.",
        changes="records",
    )
    targets: Literal["next", "leave_one_out"] = setting(
        "next",
        "With --sequence_by: next writes data-*, in which the target of each step is the next "
        "item. leave_one_out writes train-*, eval-* and test-*: the last item of each history is "
        "only in test-*, the item before it is the last target in eval-*, and train-* has all "
        "earlier items.",
        changes="records",
    )
