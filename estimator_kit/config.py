"""`ExperimentConfig`: everything that one run needs to know, checked where it is made.

`flags` makes one from the command line; a program makes one itself. Imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Optional

import pydantic
from pydantic import Field

from estimator_kit import data_service_flags
from estimator_kit.errors import ConfigError
from estimator_kit.patterns import pattern_problem
from feature_specs.entry import PositiveFloat
from feature_specs.errors import did_you_mean, nearest
from input_pipelines import beam_flags, days
from input_pipelines.convert.options import ConvertOptions
from input_pipelines.tables.options import CsvOptions

Mode = Literal[
    "train_and_evaluate", "train", "evaluate", "predict", "export", "validate", "analyze",
    "convert", "import_schema", "export_schema", "check_data",
    "data_service_dispatcher", "data_service_worker",
]  # fmt: skip
MODES: tuple[Mode, ...] = (
    "train_and_evaluate", "train", "evaluate", "predict", "export", "validate", "analyze",
    "convert", "import_schema", "export_schema", "check_data",
    "data_service_dispatcher", "data_service_worker",
)  # fmt: skip
CorruptDataPolicy = Literal["fail", "skip_record", "quarantine"]
CORRUPT_DATA_POLICIES: tuple[CorruptDataPolicy, ...] = ("fail", "skip_record", "quarantine")
WarmStartMode = Literal["weights", "weights_and_stats", "all_but_step", "all"]
WARM_START_MODES: tuple[WarmStartMode, ...] = (
    "weights", "weights_and_stats", "all_but_step", "all",
)  # fmt: skip
EXPORTERS = ("latest", "best", "final")
_TRAINING_MODES = ("train_and_evaluate", "train")
SERVICE_MODES = ("data_service_dispatcher", "data_service_worker")
_SCHEMA_MODES = ("import_schema", "export_schema")

PositiveInt = Annotated[int, Field(ge=1, strict=True)]


class ExperimentConfig(pydantic.BaseModel):
    """One run. Fields are the flags of run.py by name; `flags` documents each of them.

    Raises:
      ConfigError: a value is out of range, or fields do not go together.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    mode: Mode = "train_and_evaluate"
    spec: str = ""
    model: str = "wide_deep"
    model_params: dict[str, Any] = {}
    model_dir: Optional[str] = None

    generate_default_data: Optional[str] = None
    train_files: tuple[str, ...] = ()
    eval_files: tuple[str, ...] = ()
    predict_files: tuple[str, ...] = ()
    train_days: Optional[str] = None
    eval_days: Optional[str] = None
    train_mix: tuple[str, ...] = ()
    keep_negatives: Optional[str] = None
    batch_size: PositiveInt = 512
    eval_batch_size: PositiveInt = 2048
    shuffle: bool = True
    seed: int = 1
    deterministic: bool = False
    input_cache_dir: Optional[str] = None
    input_cache_gib: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 20.0
    corrupt_data_policy: CorruptDataPolicy = "fail"
    max_bad_records: Optional[Annotated[int, Field(ge=0, strict=True)]] = None
    max_bad_fraction: Optional[Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]] = None

    data_service: Optional[str] = None
    data_service_port: Annotated[int, Field(ge=0, le=65535)] = 0
    data_service_host: Optional[str] = None
    data_service_dir: Optional[str] = None
    data_service_timeout_secs: PositiveFloat = 60.0

    max_steps: Optional[PositiveInt] = None
    epochs: Optional[PositiveInt] = None
    save_checkpoints_steps: Optional[PositiveInt] = None
    save_checkpoints_secs: Optional[PositiveInt] = None
    keep_checkpoint_max: PositiveInt = 5
    warm_start_from: Optional[str] = None
    warm_start_mode: WarmStartMode = "weights_and_stats"
    warm_start_vars: str = ".*"
    warm_start_rename: tuple[str, ...] = ()

    eval_steps: Optional[PositiveInt] = None
    eval_throttle_secs: Annotated[int, Field(ge=0)] = 0
    early_stopping_metric: Optional[str] = None
    early_stopping_direction: Optional[Literal["min", "max"]] = None
    early_stopping_patience: PositiveInt = 3

    exporters: tuple[str, ...] = ("best", "final")
    best_metric: str = "loss"
    best_direction: Optional[Literal["min", "max"]] = None
    exports_to_keep: PositiveInt = 5

    predict_output: Optional[str] = None
    predict_limit: Optional[PositiveInt] = None
    export_dir: Optional[str] = None

    analysis_dir: Optional[str] = None
    labels: tuple[str, ...] = ()
    min_count: PositiveInt = 5
    csv_columns: tuple[str, ...] = ()
    csv_delimiter: Optional[str] = None
    csv_skip_spaces: bool = False
    csv_comment: Optional[str] = None
    csv_missing: tuple[str, ...] = ()
    schema_file: Optional[str] = None

    convert_files: tuple[str, ...] = ()
    convert_dir: Optional[str] = None
    convert_order: Literal["stable", "shuffled"] = "stable"
    convert_processes: Optional[PositiveInt] = None
    beam_options: Optional[str] = None
    shard_mib: PositiveInt = 100
    shard_compression: Literal["none", "gzip"] = "none"
    split_key: Optional[str] = None
    eval_fraction: Optional[Annotated[float, Field(gt=0, lt=1)]] = None
    step_columns: tuple[str, ...] = ()

    validate_rows: Annotated[int, Field(ge=0)] = 0
    baseline_files: tuple[str, ...] = ()
    baseline_statistics: Optional[str] = None

    profile_input: bool = False
    log_every_secs: PositiveFloat = 10.0
    intra_op_threads: Annotated[int, Field(ge=0)] = 0
    inter_op_threads: Annotated[int, Field(ge=0)] = 0

    def __init__(self, **values: Any):
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            problems = [_problem(item, type(self).model_fields) for item in error.errors()]
            raise ConfigError("\n".join(problems)) from error
        problems = list(self._problems())
        if problems:
            raise ConfigError("\n".join(problems))

    def csv_options(self) -> CsvOptions:
        """How CSV files are written."""
        return CsvOptions(
            columns=self.csv_columns, delimiter=self.csv_delimiter or "",
            skip_spaces=self.csv_skip_spaces, comment=self.csv_comment or "",
            missing=self.csv_missing,
        )  # fmt: skip

    def days_of(self, which: str) -> tuple[str, ...]:
        """The days of `train_days` or `eval_days`, first to last; none where it is not given."""
        text = getattr(self, f"{which}_days")
        return days.parse(text) if text is not None else ()

    def patterns_of(self, which: str) -> tuple[str, ...]:
        """The patterns of `train_files` or `eval_files`, one for each day where days are given."""
        window, patterns = self.days_of(which), getattr(self, f"{which}_files")
        if not window:
            return patterns
        return tuple(of_day for p in patterns for of_day in days.of_days(p, window))

    def convert_options(self) -> ConvertOptions:
        """How rows become shards."""
        return ConvertOptions(
            shard_mib=self.shard_mib, compression=self.shard_compression,
            order=self.convert_order, seed=self.seed, split_key=self.split_key,
            eval_fraction=self.eval_fraction or 0.0, step_columns=self.step_columns,
        )  # fmt: skip

    def beam_flags(self) -> Optional[tuple[str, ...]]:
        """The flags of an Apache Beam pipeline, or None where none is asked for."""
        return None if self.beam_options is None else beam_flags.split(self.beam_options)

    @property
    def has_baseline(self) -> bool:
        return bool(self.baseline_files or self.baseline_statistics)

    def _problems(self) -> list[str]:
        needs_no_spec = self.mode in (
            "analyze", "convert", "import_schema", "check_data", *SERVICE_MODES
        )  # fmt: skip
        problems = [] if self.spec or needs_no_spec else ["--spec is missing"]
        trains = self.mode in _TRAINING_MODES
        no_model = ("validate", "analyze", "convert", "check_data", *_SCHEMA_MODES, *SERVICE_MODES)
        needed = {"model_dir": self.mode not in no_model}
        needed["convert_files"] = needed["convert_dir"] = self.mode == "convert"
        needed["schema_file"] = self.mode in _SCHEMA_MODES
        needed["analysis_dir"] = self.mode == "import_schema"
        checks_data = self.mode == "validate" and (self.validate_rows > 0 or self.has_baseline)
        needed["train_files"] = trains or self.mode == "analyze" or checks_data
        if self.mode == "check_data":
            needed["train_files"] = not (self.train_mix or self.eval_files or self.predict_files)
        needed["eval_files"] = self.mode in ("train_and_evaluate", "evaluate")
        if self.mode == "predict":
            needed["model_dir"] = self.export_dir is None
            needed["predict_files"] = True
        if trains and self.train_mix:
            needed["train_files"] = False
        for field, is_needed in needed.items():
            if is_needed and not getattr(self, field):
                problems.append(f"--{field} is missing; --mode={self.mode} needs it")
        if self.mode == "analyze":
            problems += self._analysis_problems()
        if self.mode == "convert":
            problems += self._conversion_problems()
        try:
            self.csv_options()
        except ValueError as error:
            problems.append(str(error))
        problems += self._beam_problems()
        if self.mode == "import_schema":
            problems += self._label_problems()
        if trains and self.max_steps is None and self.epochs is None:
            problems.append("give --max_steps or --epochs, to say when training ends")
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            problems.append("give --save_checkpoints_steps or --save_checkpoints_secs, not both")
        for field in ("max_bad_records", "max_bad_fraction"):
            if getattr(self, field) is not None and self.corrupt_data_policy == "fail":
                problems.append(
                    f"--{field} is a limit for --corrupt_data_policy=skip_record or quarantine; "
                    "fail stops at the first bad record"
                )
        if self.baseline_files and self.baseline_statistics:
            problems.append("give --baseline_files or --baseline_statistics, not both")
        for field in (
            "train_files", "eval_files", "predict_files", "baseline_files", "convert_files"
        ):  # fmt: skip
            if "" in getattr(self, field):
                problems.append(f"--{field}: a name is empty")
        problem = pattern_problem(self.warm_start_vars)
        if problem is not None:
            problems.append(f"--warm_start_vars: {problem}")
        problems += data_service_flags.problems(self)
        problems += self._rename_problems()
        problems += self._direction_problems()
        for i, name in enumerate(self.exporters):
            if name in self.exporters[:i]:
                problems.append(f"--exporters: {name!r} is there twice")
            elif name not in EXPORTERS:
                problems.append(f"--exporters: no exporter {name!r}{did_you_mean(name, EXPORTERS)}")
        selection = self._selection_problems()
        problems += selection
        overlap = set() if selection else set(self.patterns_of("train"))
        overlap &= set() if selection else set(self.patterns_of("eval"))
        if trains and overlap:
            problems.append(
                f"--train_files and --eval_files share {', '.join(sorted(overlap))}: "
                "a model must not be scored on what it was trained on"
            )
        return problems

    def _selection_problems(self) -> list[str]:
        problems = []
        for which in ("train", "eval"):
            try:
                window = self.days_of(which)
            except ValueError as error:
                problems.append(f"--{which}_days: {error}")
                continue
            fields = ("train_files", "train_mix") if which == "train" else ("eval_files",)
            for field in fields if window else ():
                for entry in getattr(self, field):
                    pattern = entry.rpartition("=")[0] if field == "train_mix" else entry
                    try:
                        days.of_days(pattern, window)
                    except ValueError as error:
                        problems.append(f"--{field}, with --{which}_days: {error}")
        if self.train_mix and self.train_files:
            problems.append("give --train_files or --train_mix, not both")
        for entry in self.train_mix:
            if not re.fullmatch(r".+=0*([1-9]\d{0,3}|10000)", entry):
                problems.append(
                    f"--train_mix: got {entry!r}, expected pattern=share with a whole number "
                    "from 1 to 10000, as in data/ads/*.tfrecord=3"
                )
        by_clock = self.deterministic and self.save_checkpoints_steps is None
        if by_clock and self.early_stopping_metric is not None:
            problems.append(
                "--deterministic with --early_stopping_metric needs --save_checkpoints_steps: "
                "evaluations that come by the clock stop another run elsewhere"
            )
        return problems

    def _direction_problems(self) -> list[str]:
        """Directions that have to be said: those of other metrics than losses, which do by min."""
        watched = {"early_stopping": self.early_stopping_metric}
        if "best" in self.exporters:
            watched["best"] = self.best_metric
        return [
            f"--{what}_direction is missing; say whether a better {metric} is lower (min) or "
            "higher (max)"
            for what, metric in watched.items()
            if metric is not None
            and metric.partition("/")[0] != "loss"
            and getattr(self, f"{what}_direction") is None
        ]

    def _rename_problems(self) -> list[str]:
        problems = []
        for rename in self.warm_start_rename:
            old, _, new = rename.rpartition("=")
            if not old or not new:
                problems.append(f"--warm_start_rename: got {rename!r}, expected old=new")
                continue
            problem = pattern_problem(old)
            if problem is not None:
                problems.append(f"--warm_start_rename: {problem}")
        return problems

    def _analysis_problems(self) -> list[str]:
        if self.spec:
            return [
                f"--{field} is for a first spec; with --spec, --mode=analyze refreshes the files "
                "that this spec refers to"
                for field in ("analysis_dir", "labels")
                if getattr(self, field)
            ]
        problems = []
        if not self.analysis_dir:
            problems.append(
                "--analysis_dir is missing; --mode=analyze writes a first spec there, or refreshes "
                "the files of a --spec"
            )
        if not self.labels:
            problems.append(
                "--labels is missing; name the features that are to be learned, as in "
                "--labels=click,purchase"
            )
        return problems + self._label_problems()

    def _conversion_problems(self) -> list[str]:
        problems = []
        if self.split_key is not None and self.eval_fraction is None:
            problems.append(
                "--eval_fraction is missing; say which share of the keys of --split_key is for "
                "evaluation, as 0.1"
            )
        if self.eval_fraction is not None and self.split_key is None:
            problems.append(
                "--split_key is missing; name the column whose values are on one side each, as "
                "user_id"
            )
        if self.step_columns and self.spec:
            problems.append(
                "--step_columns is for a conversion without --spec; a spec says "
                "feature_list: true"
            )
        for i, name in enumerate(self.step_columns):
            if name in self.step_columns[:i] or not name:
                what = "there twice" if name else "no name"
                problems.append(f"--step_columns: {name!r} is {what}")
        return problems

    def _beam_problems(self) -> list[str]:
        if self.beam_options is None:
            return []
        problems = []
        if self.mode not in ("analyze", "convert"):
            problems.append("--beam_options is for --mode=convert and --mode=analyze")
        if self.convert_processes is not None:
            problems.append(
                "--convert_processes is for a conversion without --beam_options, whose runner has "
                "flags of its own for the number of workers"
            )
        try:
            self.beam_flags()
        except beam_flags.BeamFlagsError as error:
            problems.append(f"--beam_options: {error}")
        return problems

    def _label_problems(self) -> list[str]:
        return [
            f"--labels: {name!r} is {'there twice' if name else 'no name'}"
            for i, name in enumerate(self.labels)
            if name in self.labels[:i] or not name
        ]


def _problem(item: Any, fields: Any) -> str:
    name = ".".join(map(str, item["loc"][:1]))
    if item["type"] == "extra_forbidden":
        return f"unknown field {name!r}{did_you_mean(name, fields)}"
    if item["type"] == "missing":
        return f"--{name} is missing"
    expected = item["msg"].removeprefix("Input should be ")
    expected = "a list of strings" if item["type"] == "tuple_type" else expected
    hint = nearest(item["input"], MODES) if name == "mode" else ""
    return f"--{name}: got {item['input']!r}, expected {expected}{hint}"
