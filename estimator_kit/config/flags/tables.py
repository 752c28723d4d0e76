"""The flags of analysis, conversion and validation."""

from __future__ import annotations

from estimator_kit.config.flags.definer import Definer


def define_flags(define: Definer) -> None:
    define.text(
        "analysis_dir",
        "With --mode=analyze and --mode=import_schema: the folder for the first spec, its "
        "vocabularies and statistics. "
        "What it holds that analysis did not write is never overwritten.",
    )
    define.listing(
        "labels",
        "With --mode=analyze and --mode=import_schema: the features that are to be learned. A "
        "Schema may say them itself: by the tag label, or by not being there in serving.",
    )
    define.text(
        "schema_file",
        "With --mode=import_schema: the Schema of TensorFlow Metadata to read, in text format "
        "(schema.pbtxt). With --mode=export_schema: the file to write; another one that is there "
        "is never overwritten.",
    )
    define.integer(
        "min_count",
        "With --mode=analyze: rarer words are in no vocabulary file.",
    )
    define.listing(
        "convert_files",
        "With --mode=convert: tables to write as TFRecords, paths or globs: Parquet (.parquet), "
        "CSV (.csv, .tsv) or JSON lines (.jsonl, .json), all of one kind. With --spec, its "
        "features and labels are written, of its types, and a row that a training would stop at "
        "is an error; without, all columns.",
    )
    define.text(
        "convert_dir",
        "With --mode=convert: the folder for the shards, with _MANIFEST.json and, at the end, "
        "_SUCCESS. Started again, the same command writes the shards that are missing; a folder "
        "that holds something else is never touched.",
    )
    define.choice(
        "convert_order",
        ("stable", "shuffled"),
        "With --mode=convert: stable keeps the order of the rows, in the sorted files. shuffled "
        "deals all rows to the shards at random, by --seed; until it is through that takes as "
        "much space in --convert_dir again as the shards do without compression.",
    )
    define.integer(
        "convert_processes",
        "With --mode=convert: processes that share the work, one a core when not given. What is "
        "written does not depend on it.",
    )
    define.text(
        "beam_options",
        "With --mode=convert and --mode=analyze: do the work as an Apache Beam pipeline with these "
        "flags of Beam, separated by blanks: --beam_options='--runner=DataflowRunner --project=ads "
        "--region=europe-west1 --temp_location=gs://ads/temporary'. --runner has to be there. What "
        "is written is the same as without. The workers need estimator-kit, and the same paths of "
        "files and --convert_dir as this program; analysis on other machines needs a "
        "--temp_location. Needs estimator-kit[beam].",
    )
    define.integer(
        "shard_mib",
        "With --mode=convert: about MiB of records a shard, before compression.",
    )
    define.choice(
        "shard_compression",
        ("none", "gzip"),
        "With --mode=convert: gzip makes .tfrecord.gz, smaller and slower to write and to read.",
    )
    define.text(
        "split_key",
        "With --mode=convert: write train-* and eval-* instead of data-*, all rows of one value of "
        "this column (as user_id) on one side. A hash of the value decides, so the side is the "
        "same in every conversion with the same --eval_fraction.",
    )
    define.number(
        "eval_fraction",
        "With --split_key: the share of its values whose rows are for evaluation, as 0.1.",
    )
    define.listing(
        "step_columns",
        "With --mode=convert without --spec: columns of lists that hold steps of a sequence. They "
        "become feature_lists, and the records SequenceExamples; other lists are features of "
        "several values.",
    )
    define.listing(
        "csv_columns",
        "Names of the columns of CSV files that do not begin with a line of names.",
    )
    define.text(
        "csv_delimiter",
        "What separates the fields of CSV files: one character, \\t for a tab; by default a comma, "
        "and a tab for .tsv.",
    )
    define.switch(
        "csv_skip_spaces",
        "Spaces at the start of the fields of CSV files are no part of them. When not given, that "
        "is so where every value of a column begins with a space; --nocsv_skip_spaces keeps them.",
    )
    define.text(
        "csv_comment",
        "Lines of CSV files that start with this, as #, are no rows.",
    )
    define.listing(
        "csv_missing",
        "Fields of CSV files that are missing values, as ? or NA. An empty field always is; two "
        "quotes with nothing between them are the empty string.",
    )
    define.integer(
        "validate_rows",
        "With --mode=validate: hold this many rows of --train_files against the spec, too. 0 looks "
        "at no data, and needs no TensorFlow.",
    )
    define.listing(
        "baseline_files",
        "With --mode=validate: files of before (TFRecord, Parquet, CSV or JSON lines, by their "
        "names, as --train_files may then be); how far --train_files moved from them is measured, "
        "and held against the section drift of the spec.",
    )
    define.text(
        "baseline_statistics",
        "With --mode=validate: the same, from the statistics.json of an earlier --mode=analyze in "
        "the place of its records.",
    )
