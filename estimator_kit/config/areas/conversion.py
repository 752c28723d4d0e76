"""How tables become sharded TFRecord files. Imports no TensorFlow."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Optional

import pydantic
from pydantic import Field

from estimator_kit.config.areas.base import InStore, PositiveInt, Settings, name_problems, setting
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.run import Run
from estimator_kit.config.areas.tables import Tables
from input_pipelines.prepare.convert.options import ConvertOptions, DerivedLabel, SequenceOptions


class Conversion(Settings):
    """How tables become sharded TFRecord files."""

    heading: ClassVar[str] = "Conversion"

    convert_files: tuple[str, ...] = setting(
        (),
        "The tables to write as TFRecord files, as paths or globs: Parquet (.parquet), CSV "
        "(.csv, .tsv), JSON lines (.jsonl, .json) or svmlight (.svm), all of the same kind. With "
        "--spec, the features and labels of the spec are written with its types, and a row that a "
        "training would refuse is an error. Without --spec, all columns are written.",
        changes="records",
        named=True,
        in_store=InStore.FILES,
    )
    convert_dir: Optional[str] = setting(
        None,
        "The folder for the shards, with _MANIFEST.json and, at the end, _SUCCESS. If you "
        "start the same command again, it writes the shards that are missing. It never changes "
        "a folder that holds anything else.",
        changes="nothing",
        in_store=InStore.FOLDER,
    )
    convert_order: Literal["stable", "shuffled"] = setting(
        "stable",
        "stable: keep the order of the rows in the sorted files. shuffled: put every row into "
        "a random shard, by --seed; until the conversion ends, --convert_dir then needs "
        "additional space for all shards without compression.",
        changes="records",
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
    split: Optional[str] = setting(
        None,
        "Write train-* and eval-* instead of data-*, and test-* with --split_test. key:user_id: "
        "all rows that share a value of this column are on the same side. A hash of the value "
        "decides the side, so it is the same in every conversion with the same shares. rows: a "
        "hash of the number of each row decides its side, for rows that do not belong together; "
        "equal rows may be on both sides. "
        "time:ts: the rows with the latest values of this column are for testing, the latest rows "
        "before them for evaluation: integers, dates, or times such as 2026-01-31 10:00:00. Rows "
        "with the same value are on the same side.",
        changes="records",
    )
    split_eval: Optional[str] = setting(
        None,
        "The share that is for evaluation, such as 0.1: of the values with --split=key, else of "
        "the rows. With --split=time, it may also be the first value that is for evaluation, such "
        "as 2026-01-25.",
        changes="records",
    )
    split_test: Optional[str] = setting(
        None,
        "Also write test-*: the share that is for testing, such as 0.1, counted as --split_eval. "
        "No choice is made on these rows, such as the step of the best model, so their metrics are "
        "what to expect of new rows. With --split=time, it may also be the first value that is for "
        "testing.",
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

    @pydantic.field_validator("split_eval", "split_test", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value) if type(value) in (int, float) else value

    @property
    def split_key(self) -> Optional[str]:
        """The column whose values decide the side of a row."""
        return self._split_column("key")

    @property
    def split_rows(self) -> bool:
        """Whether the number of a row decides its side."""
        return self.split == "rows"

    @property
    def split_time(self) -> Optional[str]:
        """The column whose latest values are for evaluation."""
        return self._split_column("time")

    @property
    def eval_fraction(self) -> float:
        """The share that is for evaluation; 0 if `split_eval` is not a share."""
        return _share(self.split_eval)

    @property
    def eval_from(self) -> Optional[str]:
        """The first value of `split_time` that is for evaluation."""
        is_value = self.split_time is not None and not self.eval_fraction
        return self.split_eval if is_value else None

    @property
    def test_fraction(self) -> float:
        """The share that is for testing; 0 if `split_test` is not a share."""
        return _share(self.split_test)

    @property
    def test_from(self) -> Optional[str]:
        """The first value of `split_time` that is for testing."""
        is_value = self.split_time is not None and not self.test_fraction
        return self.split_test if is_value else None

    def _split_column(self, how: str) -> Optional[str]:
        name, _, column = (self.split or "").partition(":")
        return column if name == how else None

    def convert_options(self, seed: int) -> ConvertOptions:
        """How rows become shards."""
        sequences = None
        if self.sequence_by is not None:
            assert self.order_by is not None, "the rules require it"
            sequences = SequenceOptions(
                by=self.sequence_by,
                order_by=self.order_by,
                columns=self.sequence_columns,
                steps=self.sequence_steps,
                targets=self.targets,
            )
        return ConvertOptions(
            shard_mib=self.shard_mib,
            compression=self.shard_compression,
            order=self.convert_order,
            seed=seed,
            split_key=self.split_key,
            split_rows=self.split_rows,
            split_time=self.split_time,
            eval_fraction=self.eval_fraction,
            eval_from=self.eval_from,
            test_fraction=self.test_fraction,
            test_from=self.test_from,
            step_columns=self.step_columns,
            derived_labels=tuple(map(DerivedLabel.parse, self.derive_labels)),
            sequences=sequences,
        )


def _share(text: Optional[str]) -> float:
    """A share between 0 and 1; 0 for any other text."""
    is_share = re.fullmatch(r"0?\.\d*[1-9]\d*|\d(\.\d+)?e-\d+", text or "")
    return float(text) if is_share and text else 0.0


def problems(conversion: Conversion, program: Program, run: Run, tables: Tables) -> list[str]:
    """What does not go together in `--mode=convert`, and in `--mode=analyze` for its records."""
    if program.mode == "analyze":
        return _analysis_problems(conversion, run)
    if program.mode == "convert":
        return convert_problems(conversion, program, run, tables)
    return []


# What an analysis uses only for the records that it writes.
_OF_RECORDS = (
    "split",
    "split_eval",
    "split_test",
    "sequence_by",
    "order_by",
    "sequence_columns",
    "sequence_steps",
)


def _analysis_problems(conversion: Conversion, run: Run) -> list[str]:
    """Settings of a conversion in an analysis that converts nothing."""
    if conversion.convert_dir is not None:
        if not run.spec:  # The analysis fills in what is missing, and checks the columns.
            missing = {
                "split": conversion.split or "rows",
                "split_eval": conversion.split_eval or "0.1",
            }
            return _split_problems(conversion.model_copy(update=missing))
        return [
            "--convert_dir is for a first spec, but with --spec, --mode=analyze refreshes the "
            "files that this spec refers to. Use --mode=convert."
        ]
    return [
        f"--{name} is for the records that an analysis writes. Name their folder with "
        "--convert_dir."
        for name in _OF_RECORDS
        if getattr(conversion, name)
    ]


def convert_problems(
    conversion: Conversion, program: Program, run: Run, tables: Tables
) -> list[str]:
    """What does not go together in a conversion."""
    lines = _split_problems(conversion) + _label_problems(conversion)
    if conversion.step_columns and run.spec:
        lines.append(
            "--step_columns is for a conversion without --spec. Write feature_list: true in the "
            "spec instead."
        )
    lines += name_problems("step_columns", conversion.step_columns)
    if tables.beam_options is not None and program.processes is not None:
        lines.append(
            "--processes is for a conversion without --beam_options. Use the flag of the "
            "Beam runner for the number of workers."
        )
    return lines + _sequence_problems(conversion, program, tables)


def _split_problems(conversion: Conversion) -> list[str]:
    split, share = conversion.split, conversion.split_eval
    if split is None:
        if share is None and conversion.split_test is None:
            return []
        return [
            "--split is missing. Say how rows are chosen for evaluation: key:user_id, rows or "
            "time:ts, with the names of your columns."
        ]
    if not re.fullmatch(r"rows|(key|time):.+", split):
        return [
            "--split: expected key:<column>, rows or time:<column>, such as key:user_id, got "
            f"{split!r}."
        ]
    if share is None:
        what = "values of the column" if conversion.split_key is not None else "rows"
        also = ", or the first value" if conversion.split_time is not None else ""
        return [
            f"--split_eval is missing. Say which share of the {what} is for evaluation, such as "
            f"0.1{also}."
        ]
    lines = []
    if conversion.split_time is None:
        shares = {"split_eval": share, "split_test": conversion.split_test}
        lines = [
            f"--{flag}: expected a share between 0 and 1, such as 0.1, got {text!r}."
            for flag, text in shares.items()
            if text is not None and not _share(text)
        ]
    if conversion.eval_fraction + conversion.test_fraction >= 1:
        lines.append(
            "--split_eval and --split_test: expected shares that are less than 1 together, got "
            f"{share} and {conversion.split_test}. Training needs rows, too."
        )
    return lines


def _label_problems(conversion: Conversion) -> list[str]:
    lines = []
    for text in conversion.derive_labels:
        try:
            DerivedLabel.parse(text)
        except ValueError as error:
            lines.append(str(error))
    return lines + name_problems("derive_labels", _labels(conversion))


def _labels(conversion: Conversion) -> list[str]:
    """The names of derived labels, whether or not the rest of them can be read."""
    return [text.partition("=")[0] for text in conversion.derive_labels]


def _sequence_problems(conversion: Conversion, program: Program, tables: Tables) -> list[str]:
    sequence_settings = {
        "order_by": conversion.order_by,
        "sequence_columns": conversion.sequence_columns,
        "sequence_steps": conversion.sequence_steps,
        "targets": None if conversion.targets == "next" else conversion.targets,
    }
    if conversion.sequence_by is None:
        return [
            f"--{name} is for sequences. Name the column of a history, such as user_id, with "
            "--sequence_by."
            for name, value in sequence_settings.items()
            if value
        ]
    lines = name_problems("sequence_columns", conversion.sequence_columns)
    if conversion.order_by is None:
        lines.append("--order_by is missing. Name the column with the time of each row.")
    if not conversion.sequence_columns:
        lines.append("--sequence_columns is missing. Name the column with the item of each row.")
    elif not lines:
        lines += _problems_of_names(conversion)
    if conversion.split_key is not None and conversion.targets == "leave_one_out":
        lines.append(
            "--split is for --targets=next. --targets=leave_one_out splits each history itself."
        )
    elif conversion.split_key not in (None, conversion.sequence_by):
        lines.append(
            f"--split: expected key:{conversion.sequence_by}, as in --sequence_by, got "
            f"{conversion.split}. All rows of a history must be on the same side."
        )
    for label in _labels(conversion):
        if label not in conversion.sequence_columns:
            lines.append(
                f"--derive_labels: expected {label!r} in --sequence_columns, because records of "
                "sequences have only these columns. Add it."
            )
    if conversion.split_rows or conversion.split_time is not None:
        lines.append(
            f"--split={conversion.split} is for a conversion without --sequence_by. Use "
            f"--split=key:{conversion.sequence_by}, or --targets=leave_one_out."
        )
    workers = {
        "processes": program.processes,
        "beam_options": tables.beam_options,
    }
    for name, value in workers.items():
        if value is not None:
            lines.append(
                f"--{name} is for a conversion without --sequence_by. One process makes all "
                "sequences. Remove it."
            )
    return lines


def _problems_of_names(conversion: Conversion) -> list[str]:
    """Features of sequences that would have the same name."""
    assert conversion.sequence_by is not None
    options = SequenceOptions(conversion.sequence_by, "", conversion.sequence_columns)
    if options.by in options.columns:
        return [
            f"--sequence_columns: {options.by!r} is also --sequence_by, and has the same value in "
            "each step. Remove it."
        ]
    return [
        f"--sequence_columns: {name!r} is the name of a feature that the conversion adds. Rename "
        "the column."
        for name in (options.by, *options.columns)
        if name == options.target
    ]
