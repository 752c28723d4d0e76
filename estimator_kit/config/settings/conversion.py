"""Tables into sharded TFRecords."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.settings.base import PositiveInt, Settings, setting


class ConversionSettings(Settings):
    """Tables into sharded TFRecords."""

    heading: ClassVar[str] = "Conversion"

    convert_files: tuple[str, ...] = setting(
        (),
        "With --mode=convert: tables to write as TFRecords, paths or globs: Parquet (.parquet), "
        "CSV (.csv, .tsv) or JSON lines (.jsonl, .json), all of one kind. With --spec, its "
        "features and labels are written, of its types, and a row that a training would stop at "
        "is an error; without, all columns.",
    )
    convert_dir: Optional[str] = setting(
        None,
        "With --mode=convert: the folder for the shards, with _MANIFEST.json and, at the end, "
        "_SUCCESS. Started again, the same command writes the shards that are missing; a folder "
        "that holds something else is never touched.",
    )
    convert_order: Literal["stable", "shuffled"] = setting(
        "stable",
        "With --mode=convert: stable keeps the order of the rows, in the sorted files. shuffled "
        "deals all rows to the shards at random, by --seed; until it is through that takes as "
        "much space in --convert_dir again as the shards do without compression.",
    )
    convert_processes: Optional[PositiveInt] = setting(
        None,
        "With --mode=convert: processes that share the work, one a core when not given. What is "
        "written does not depend on it.",
    )
    shard_mib: PositiveInt = setting(
        100,
        "With --mode=convert: about MiB of records a shard, before compression.",
    )
    shard_compression: Literal["none", "gzip"] = setting(
        "none",
        "With --mode=convert: gzip makes .tfrecord.gz, smaller and slower to write and to read.",
    )
    split_key: Optional[str] = setting(
        None,
        "With --mode=convert: write train-* and eval-* instead of data-*, all rows of one value "
        "of this column (as user_id) on one side. A hash of the value decides, so the side is "
        "the same in every conversion with the same --eval_fraction.",
    )
    eval_fraction: Optional[Annotated[float, Field(gt=0, lt=1)]] = setting(
        None,
        "With --split_key: the share of its values whose rows are for evaluation, as 0.1.",
    )
    step_columns: tuple[str, ...] = setting(
        (),
        "With --mode=convert without --spec: columns of lists that hold steps of a sequence. "
        "They become feature_lists, and the records SequenceExamples; other lists are features "
        "of several values.",
    )
