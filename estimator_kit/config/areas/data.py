"""Which records are read. Imports no TensorFlow."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Optional, TypeVar

import pydantic
from pydantic_core import PydanticCustomError

from estimator_kit.config.areas.base import InStore, Settings, setting
from input_pipelines.reading import files

D = TypeVar("D", bound="Data")

# The evaluation set whose rows choose nothing, if --eval_files names it. --mode=analyze does.
TEST = "test"


class Data(Settings):
    """Which records are read."""

    heading: ClassVar[str] = "Records"

    train_files: tuple[str, ...] = setting(
        (),
        "TFRecord files to train on: paths or globs, separated by commas. They may also be tables: "
        "Parquet, CSV, JSON lines or svmlight, all of one kind. A training in one process then "
        "converts them first, as --mode=convert --spec does, and a row that it would refuse is an "
        "error. The records are kept in ~/.cache/estimator_kit/records, or in --input_cache_dir, "
        "and made again if a table or the spec changes. How CSV is written stands in the section "
        "tables of the spec. Tables do not go with clusters, --data_service, --train_mix and "
        "--mode=retrain: convert them.",
        changes="rows",
        named=True,
        in_store=InStore.FILES,
    )
    train_days: Optional[str] = setting(
        None,
        "Days to train on: 2026-01-01..2026-01-07, 7d..2026-01-07 (the seven days that end "
        "with it) or 2026-01-07. Each day replaces dt=* in --train_files "
        "(data/dt=*/*.tfrecord). A day without a file is an error.",
        changes="rows",
        named=True,
    )
    train_mix: tuple[str, ...] = setting(
        (),
        "Instead of --train_files: several patterns and the share of each, such as "
        "a/*.tfrecord=3,b/*.tfrecord=1. Then three of four rows in every batch come from a, "
        "however many rows a and b have. When a part ends, it starts again. An epoch has as "
        "many rows as all parts together.",
        changes="rows",
        named=True,
        in_store=InStore.FILES,
    )
    input_fn: Optional[str] = setting(
        None,
        "Instead of --train_files: your function that gives the rows, as package.module:function. "
        "It takes the mode, 'train' or 'eval', and returns the rows of one epoch: an iterable of "
        "dictionaries, or a tf.data.Dataset of them. Without --eval_files, it also gives the rows "
        "to evaluate on.",
        changes="rows scores",
        named=True,
    )
    input_version: Optional[str] = setting(
        None,
        "A name for the rows of --input_fn and their order, such as a day. Give it if each call "
        "returns the same rows in the same order; then a training that starts again goes on with "
        "the next row. With another name, rows and epochs are counted again from 0.",
        changes="rows scores",
    )
    eval_files: tuple[str, ...] = setting(
        (),
        "TFRecord files to evaluate on, or tables, as in --train_files. Each evaluation reads all "
        "of them. Several sets get names: "
        "a/*.tfrecord,test=b/*.tfrecord,newcomers=c/*.tfrecord. The set without a name, or else "
        "the first one, judges the model: for the best export, early stopping and gates. All "
        "other sets are only measured. A name has small letters, digits and _. dt=... is a path, "
        "and so is country=... if such a file or folder exists.",
        changes="scores",
        named=True,
        in_store=InStore.FILES,
    )
    eval_days: Optional[str] = setting(
        None,
        "Days to evaluate on, such as 2026-01-08, in the form of --train_days. Each day "
        "replaces dt=* in --eval_files.",
        changes="scores",
        named=True,
    )
    predict_files: tuple[str, ...] = setting(
        (),
        "TFRecord files to predict. Their records need no labels. With --predict_dir, the "
        "files may also be tables.",
        changes="",
        named=True,
        in_store=InStore.FILES,
    )
    generate_default_data: Optional[str] = setting(
        None,
        "A folder for the default data, a synthetic advertising log (200,000 rows in 8 days). "
        "If the data do not exist there, the program generates them first.",
        changes="nothing",
    )

    _own_function: Optional[Callable[[str], Any]] = None

    @classmethod
    def of(cls: type[D], config: Settings) -> D:
        """As of other areas, with the function that was given as `input_fn`."""
        area = super().of(config)
        if isinstance(config, Data):
            area._own_function = config._own_function
        return area

    @property
    def own_function(self) -> Optional[Callable[[str], Any]]:
        """The function that was given as `input_fn`; None if only its name was."""
        return self._own_function

    @pydantic.field_validator("input_fn", mode="before")
    @classmethod
    def _name_of_function(cls, function: Any) -> Any:
        if isinstance(function, str) and not re.fullmatch(r"[\w.]+:[^\s:]+", function):
            raise PydanticCustomError("input_fn", "package.module:function, such as my_rows:read")
        return name_of_function(function) if callable(function) else function

    def days_of(self, which: str) -> tuple[str, ...]:
        """The days of `train_days` or `eval_days`, first to last; none if it is not set."""
        text = getattr(self, f"{which}_days")
        return files.parse_days(text) if text is not None else ()

    def patterns_of(self, which: str) -> tuple[str, ...]:
        """The patterns of `train_files` or `judging_files`, one for each day if days are set."""
        patterns = self.train_files if which == "train" else self.judging_files
        return self.of_days(patterns, which)

    def of_days(self, patterns: Sequence[str], which: str) -> tuple[str, ...]:
        """The patterns, one for each day if `train_days` or `eval_days` is set."""
        window = self.days_of(which)
        if not window:
            return tuple(patterns)
        return tuple(of_day for p in patterns for of_day in files.of_days(p, window))

    def plain(self, field: str) -> tuple[str, ...]:
        """The patterns of a setting with files; of `eval_files`, only of the set that judges."""
        patterns: tuple[str, ...] = getattr(self, field)
        return self.judging_files if field == "eval_files" else patterns

    @property
    def judging_files(self) -> tuple[str, ...]:
        """The patterns of the evaluation set that judges the model."""
        return next(iter(self.sets.values()), ())

    @property
    def other_sets(self) -> dict[str, tuple[str, ...]]:
        """The patterns of the other evaluation sets, by name."""
        (_, *others) = self.sets.items() or [("", ())]
        return {str(name): patterns for name, patterns in others}

    @property
    def sets(self) -> dict[Optional[str], tuple[str, ...]]:
        """The patterns of all evaluation sets. The set that judges is the first one."""
        sets: dict[Optional[str], tuple[str, ...]] = {}
        for name, pattern in map(files.named, self.eval_files):
            sets[name] = (*sets.get(name, ()), pattern)
        return dict(sorted(sets.items(), key=lambda entry: entry[0] is not None))


def name_of_function(function: Any) -> str:
    """`package.module:function` of a function, a method, or another object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def problems(data: Data) -> list[str]:
    """What does not go together in the choice of records."""
    lines = []
    for which in ("train", "eval"):
        try:
            window = data.days_of(which)
        except ValueError as error:
            lines.append(f"--{which}_days: {error}")
            continue
        fields = ("train_files", "train_mix") if which == "train" else ("eval_files",)
        if window and not any(getattr(data, field) for field in fields):
            lines.append(f"--{which}_files is missing. --{which}_days chooses days from it.")
        for field in fields if window else ():
            for entry in getattr(data, field):
                pattern = entry.rpartition("=")[0] if field == "train_mix" else entry
                pattern = files.named(entry)[1] if field == "eval_files" else pattern
                try:
                    files.of_days(pattern, window)
                except ValueError as error:
                    lines.append(f"--{field}, with --{which}_days: {error}")
    if data.train_mix and data.train_files:
        lines.append("--train_files and --train_mix do not go together. Give one of them.")
    for entry in data.train_mix:
        if not re.fullmatch(r".+=0*([1-9]\d{0,3}|10000)", entry):
            lines.append(
                "--train_mix: expected pattern=share with a whole number from 1 to 10000, such as "
                f"data/ads/*.tfrecord=3, got {entry!r}."
            )
    return lines
