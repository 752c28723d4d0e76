"""`ExperimentConfig`: everything that one run needs to know, checked where it is made.

`flags` makes one from the command line; a program makes one itself. Imports no TensorFlow.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal, Optional

import pydantic
from pydantic import Field
from pydantic_core import PydanticCustomError

from estimator_kit.config.modes import MODES, Mode
from estimator_kit.config.rules import problems_of
from estimator_kit.errors import ConfigError
from feature_specs.entry import PositiveFloat
from feature_specs.errors import did_you_mean, nearest
from input_pipelines.prepare.beam import flags
from input_pipelines.prepare.convert.options import ConvertOptions
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.reading import days

CorruptDataPolicy = Literal["fail", "skip_record", "quarantine"]
CORRUPT_DATA_POLICIES: tuple[CorruptDataPolicy, ...] = ("fail", "skip_record", "quarantine")
WarmStartMode = Literal["weights", "weights_and_stats", "all_but_step", "all"]
WARM_START_MODES: tuple[WarmStartMode, ...] = (
    "weights", "weights_and_stats", "all_but_step", "all",
)  # fmt: skip

Strategy = Literal["parameter_server", "sync_replicas", "mirrored", "multi_worker_mirrored"]

# Numbers that TensorFlow holds as int64.
_LARGEST = 2**63 - 1

PositiveInt = Annotated[int, Field(ge=1, le=_LARGEST, strict=True)]


_NAME_OR_CLASS = (
    "the name of a model, as 'wide_deep' or 'package.module:ClassName', or a subclass of "
    "estimator_kit.ModelFn"
)
_TOP_OF_MODULE = (
    "a class at the top of a module, where its name finds it again; one inside a function or "
    "another class cannot be found"
)


class ExperimentConfig(pydantic.BaseModel):
    """One run. Fields are the flags of run.py by name; `flags` documents each of them.

    `model` may be a subclass of `ModelFn`, which becomes its name, `package.module:ClassName`. One
    string for a field of several is a list of it alone; it is not divided at commas.

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
    seed: Annotated[int, Field(ge=-_LARGEST - 1, le=_LARGEST)] = 1
    deterministic: bool = False
    input_cache_dir: Optional[str] = None
    input_cache_gib: Optional[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = None
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
    eval_name: str = "evaluate"
    eval_throttle_secs: Annotated[int, Field(ge=0)] = 0
    early_stopping_metric: Optional[str] = None
    early_stopping_direction: Optional[Literal["min", "max"]] = None
    early_stopping_patience: PositiveInt = 3

    exporters: tuple[str, ...] = ("best", "final")
    best_metric: str = "loss"
    best_direction: Optional[Literal["min", "max"]] = None
    best_k: PositiveInt = 3
    export_every_steps: Optional[PositiveInt] = None
    exports_to_keep: PositiveInt = 5
    export_check_rows: PositiveInt = 100
    default_signature: str = "predict_examples"

    predict_output: Optional[str] = None
    predict_limit: Optional[PositiveInt] = None
    predict_outputs: tuple[str, ...] = ()
    export_dir: Optional[str] = None
    predict_dir: Optional[str] = None
    keep_columns: tuple[str, ...] = ()
    predict_processes: Optional[PositiveInt] = None

    serving_models: tuple[str, ...] = ()
    serving_versions: tuple[str, ...] = ()
    serving_labels: tuple[str, ...] = ()
    serving_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    serving_grpc_port: Annotated[int, Field(ge=0, le=65535)] = 8500
    serving_rest_port: Annotated[int, Field(ge=0, le=65535)] = 8501
    serving_threads: PositiveInt = 16
    serving_max_request_mib: Annotated[int, Field(ge=1, le=1024)] = 16
    serving_poll_secs: PositiveFloat = 1.0
    serving_allowed_hosts: tuple[str, ...] = ()
    serving_lame_duck_secs: Annotated[float, Field(ge=0)] = 5.0
    serving_config_dir: Optional[str] = None
    serving_image: Optional[str] = None
    serving_batch_rows: Annotated[int, Field(ge=0)] = 128
    serving_batch_timeout_micros: Annotated[int, Field(ge=0)] = 1000
    inspect_path: Optional[str] = None
    graph_dir: Optional[str] = None
    transform: Optional[
        Literal[
            "freeze", "optimize", "text", "binary",
            "tflite", "tflite_dynamic", "tflite_int8", "onnx",
        ]
    ] = None  # fmt: skip
    transform_inputs: Literal["features", "columns"] = "features"
    representative_files: tuple[str, ...] = ()
    transform_dir: Optional[str] = None
    transform_tolerance: PositiveFloat = 1e-5
    transform_max_loss_increase: PositiveFloat = 0.01

    analysis_dir: Optional[str] = None
    labels: tuple[str, ...] = ()
    min_count: PositiveInt = 5
    csv_columns: tuple[str, ...] = ()
    csv_delimiter: Optional[str] = None
    csv_skip_spaces: Optional[bool] = None
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

    as_of: Optional[str] = None
    window_days: Optional[PositiveInt] = None
    eval_window_days: PositiveInt = 1
    window_min_days: PositiveInt = 1
    window_min_rows: PositiveInt = 1
    window_max_age_days: Optional[PositiveInt] = None
    serving_dir: Optional[str] = None
    force: bool = False
    keep_cycles: PositiveInt = 7
    keep_cycle_days: Optional[PositiveInt] = None
    keep_versions: PositiveInt = 3
    stage_limits: tuple[str, ...] = ()
    lock_stale_secs: PositiveFloat = 120.0
    prometheus_file: Optional[str] = None
    webhook_url_file: Optional[str] = None
    webhook_timeout_secs: PositiveFloat = 10.0
    exit_code_style: Literal["kit", "kubernetes"] = "kit"
    to: Optional[PositiveInt] = None
    cycle: Optional[str] = None

    profile_input: bool = False
    log_every_secs: PositiveFloat = 10.0
    intra_op_threads: Annotated[int, Field(ge=0)] = 0
    inter_op_threads: Annotated[int, Field(ge=0)] = 0
    memory_growth: bool = True

    strategy: Optional[Strategy] = None
    job_name: Optional[Literal["chief", "worker", "ps", "evaluator"]] = None
    task_index: Annotated[int, Field(ge=0)] = 0
    worker_hosts: tuple[str, ...] = ()
    ps_hosts: tuple[str, ...] = ()
    launch_local: Optional[str] = None
    cluster_timeout_secs: PositiveFloat = 600.0
    listen_on_all_interfaces: bool = False
    mirrored_devices: Optional[PositiveInt] = None
    backup_workers: Annotated[int, Field(ge=0)] = 0
    partition_mib: Optional[PositiveFloat] = None

    def __init__(self, **values: Any):
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            problems = [_problem(item, type(self).model_fields) for item in error.errors()]
            raise ConfigError("\n".join(problems)) from error
        problems = problems_of(self)
        if problems:
            raise ConfigError("\n".join(problems))

    @pydantic.field_validator("model", mode="before")
    @classmethod
    def _name_of_class(cls, model: Any) -> Any:
        if isinstance(model, type):
            name = model.__qualname__
            if getattr(sys.modules.get(model.__module__), name, None) is not model:
                raise PydanticCustomError("model", _TOP_OF_MODULE)
            return f"{model.__module__}:{name}"
        if not isinstance(model, str):
            raise PydanticCustomError("model", _NAME_OR_CLASS)
        return model

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _list_of_one(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        several = cls.model_fields[str(info.field_name)].annotation == tuple[str, ...]
        return (value,) if several and isinstance(value, str) else value

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
        return None if self.beam_options is None else flags.split(self.beam_options)

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
