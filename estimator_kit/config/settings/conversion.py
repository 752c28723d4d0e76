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
    )
    convert_dir: Optional[str] = setting(
        None,
        "The folder for the shards, with _MANIFEST.json and, at the end, _SUCCESS. If you "
        "start the same command again, it writes the shards that are missing. It never changes "
        "a folder that holds anything else.",
    )
    convert_order: Literal["stable", "shuffled"] = setting(
        "stable",
        "stable: keep the order of the rows in the sorted files. shuffled: put every row into "
        "a random shard, by --seed; until the conversion ends, --convert_dir then needs "
        "additional space for all shards without compression.",
    )
    convert_processes: Optional[PositiveInt] = setting(
        None,
        "How many processes share the work; by default one for each core. The output does not "
        "depend on it.",
    )
    shard_mib: PositiveInt = setting(
        100,
        "About how many MiB of records each shard has, before compression.",
    )
    shard_compression: Literal["none", "gzip"] = setting(
        "none",
        "gzip writes .tfrecord.gz files, which are smaller, and slower to write and to read.",
    )
    split_key: Optional[str] = setting(
        None,
        "Write train-* and eval-* instead of data-*, with all rows that share a value of this "
        "column (such as user_id) on the same side. A hash of the value decides the side, so "
        "it is the same in every conversion with the same --eval_fraction.",
    )
    eval_fraction: Optional[Annotated[float, Field(gt=0, lt=1)]] = setting(
        None,
        "With --split_key: the share of its values whose rows are for evaluation, such as 0.1.",
    )
    step_columns: tuple[str, ...] = setting(
        (),
        "Without --spec: columns of lists whose items are the steps of a sequence. They become "
        "feature lists, and the records become SequenceExamples. Other lists become features "
        "with several values.",
    )
