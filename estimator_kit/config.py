"""`ExperimentConfig`: everything that one run needs to know, checked where it is made.

`flags` makes one from the command line; a program makes one itself. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

import pydantic
from pydantic import Field

from estimator_kit.config_problems import problems_of
from estimator_kit.errors import ConfigError
from estimator_kit.modes import MODES, Mode
from feature_specs.entry import PositiveFloat
from feature_specs.errors import did_you_mean, nearest
from input_pipelines import beam_flags, days
from input_pipelines.convert.options import ConvertOptions
from input_pipelines.tables.options import CsvOptions

CorruptDataPolicy = Literal["fail", "skip_record", "quarantine"]
CORRUPT_DATA_POLICIES: tuple[CorruptDataPolicy, ...] = ("fail", "skip_record", "quarantine")
WarmStartMode = Literal["weights", "weights_and_stats", "all_but_step", "all"]
WARM_START_MODES: tuple[WarmStartMode, ...] = (
    "weights", "weights_and_stats", "all_but_step", "all",
)  # fmt: skip

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
        problems = problems_of(self)
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
