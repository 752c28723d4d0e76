"""The closed table of modes: what each is for, and which settings it reads. No TensorFlow.

A new mode is a module of this folder with `run(config, tell)`, an entry here, and its name in
`config.modes`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Union

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import Mode
from estimator_kit.config.of_modes import (
    ConvertConfig,
    InspectConfig,
    ModelDirConfig,
    ReproduceConfig,
    RetrainConfig,
    RollbackConfig,
    SchemaConfig,
    ServingFilesConfig,
    TransformConfig,
)
from estimator_kit.config.settings import (
    AREAS,
    AnalysisSettings,
    BadDataSettings,
    ClusterSettings,
    ConversionSettings,
    DataSettings,
    EvaluationSettings,
    ExportSettings,
    InputCacheSettings,
    MachineSettings,
    PredictionSettings,
    RetrainingSettings,
    ServingSettings,
    TableSettings,
    TrainingSettings,
)
from estimator_kit.config.settings.base import Settings

PURPOSES = ("prepare data", "train", "look", "serve", "retrain")

_Reads = Union[type[Settings], str]


@dataclasses.dataclass(frozen=True)
class Command:
    """One mode.

    Attributes:
      purpose: one of `PURPOSES`; `--help` lists modes by it.
      help: one line.
      module: of this folder; it has `run(config, tell)`.
      reads: the settings that the mode reads: whole areas, and single ones by name.
      config: the kind of config that `run` gets.
      estimators: whether it makes an Estimator or a Keras model, and so needs `compat`.
    """

    purpose: str
    help: str
    module: str
    reads: tuple[_Reads, ...]
    config: type[ExperimentConfig] = ExperimentConfig
    estimators: bool = True

    def settings(self) -> frozenset[str]:
        """The names of the settings that the mode reads."""
        return frozenset(_names((*_EVERY_MODE, *self.reads)))


def _names(reads: Iterable[_Reads]) -> Iterable[str]:
    for item in reads:
        yield from (item,) if isinstance(item, str) else item.model_fields


def modes_that_read(name: str) -> list[str]:
    """The modes that read a setting."""
    return [mode for mode, command in COMMANDS.items() if name in command.settings()]


_EVERY_MODE = ("mode", "exit_code_style", "log_every_secs")
_MODEL = ("spec", "model", "model_params", "model_dir", "generate_default_data")
_TRAIN_DATA = ("train_files", "train_days", "train_mix")
_EVAL_DATA = ("eval_files", "eval_days")
_TRAINING: tuple[_Reads, ...] = (
    *_MODEL, DataSettings, BadDataSettings, InputCacheSettings, TrainingSettings,
    EvaluationSettings, ExportSettings, MachineSettings, "lock_stale_secs",
)  # fmt: skip
_CLUSTER: tuple[_Reads, ...] = (ClusterSettings, "data_service", "data_service_timeout_secs")
_ONE_MODEL: tuple[_Reads, ...] = (
    *_MODEL, BadDataSettings, MachineSettings, "eval_batch_size", "seed", "deterministic",
)  # fmt: skip

COMMANDS: Mapping[Mode, Command] = {
    "analyze": Command(
        "prepare data", "write a first spec for some records, or refresh the files of a spec",
        "analyze", ("spec", *_TRAIN_DATA, "convert_processes", AnalysisSettings, TableSettings),
        estimators=False,
    ),
    "convert": Command(
        "prepare data", "write tables (Parquet, CSV, JSON lines) as sharded TFRecords",
        "convert", ("spec", "seed", "beam_options", ConversionSettings, TableSettings),
        ConvertConfig, estimators=False,
    ),
    "check_data": Command(
        "prepare data", "read all records, and list what is damaged or does not fit the spec",
        "check_data", ("spec", "model_dir", *_TRAIN_DATA, *_EVAL_DATA, "predict_files"),
        estimators=False,
    ),
    "import_schema": Command(
        "prepare data", "write a first spec for a Schema of TensorFlow Metadata",
        "schema", ("schema_file", "analysis_dir", "labels"), SchemaConfig, estimators=False,
    ),
    "export_schema": Command(
        "prepare data", "write a spec as a Schema of TensorFlow Metadata",
        "schema", ("spec", "schema_file"), SchemaConfig, estimators=False,
    ),
    "data_service_dispatcher": Command(
        "prepare data", "run the dispatcher of a tf.data service until it is stopped",
        "data_service", ("data_service_port", "data_service_host", "data_service_dir"),
        estimators=False,
    ),
    "data_service_worker": Command(
        "prepare data", "run a worker of a tf.data service until it is stopped",
        "data_service",
        ("data_service", "data_service_port", "data_service_host", "data_service_dir"),
        estimators=False,
    ),
    "train_and_evaluate": Command(
        "train", "train, evaluate every checkpoint, export (the default)",
        "train", (*_TRAINING, *_CLUSTER), ModelDirConfig,
    ),
    "train": Command(
        "train", "train alone", "train", (*_TRAINING, *_CLUSTER), ModelDirConfig,
    ),
    "evaluate": Command(
        "train", "score the latest checkpoint on --eval_files",
        "evaluate", (*_ONE_MODEL, *_EVAL_DATA, "eval_steps", "eval_name", InputCacheSettings),
        ModelDirConfig,
    ),
    "export": Command(
        "train", "write a SavedModel of the latest checkpoint",
        "export", (*_ONE_MODEL, *_TRAIN_DATA, *_EVAL_DATA, ExportSettings), ModelDirConfig,
    ),
    "predict": Command(
        "train", "predict --predict_files with the latest checkpoint or an export",
        "predict", (*_ONE_MODEL, "predict_files", PredictionSettings, TableSettings),
    ),
    "validate": Command(
        "look", "check flags and spec, and on request rows, before anything runs",
        "validate", AREAS, estimators=False,
    ),
    "inspect": Command(
        "look", "say what is in an export, a checkpoint or a model directory",
        "inspect", ("inspect_path", "graph_dir"), InspectConfig,
    ),
    "transform": Command(
        "look", "write an export in another form (frozen, TensorFlow Lite, ONNX, ...)",
        "transform",
        ("export_dir", "transform", "transform_dir", "transform_inputs", "representative_files",
         "transform_tolerance", "transform_max_loss_increase", "predict_files", *_EVAL_DATA),
        TransformConfig,
    ),
    "serve": Command(
        "serve", "answer gRPC and REST as TensorFlow Serving does, for development",
        "serve", (ServingSettings, MachineSettings), estimators=False,
    ),
    "serving_config": Command(
        "serve", "write the files that TensorFlow Serving is started with",
        "serving_config", (ServingSettings,), ServingFilesConfig, estimators=False,
    ),
    "retrain": Command(
        "retrain", "one cycle: choose days, check, train, compare with the live one, promote",
        "retrain", (*_TRAINING, RetrainingSettings), RetrainConfig,
    ),
    "rollback": Command(
        "retrain", "make the version --to live again",
        "retrain", ("model_dir", "serving_dir", "to", "keep_versions", "lock_stale_secs"),
        RollbackConfig,
    ),
    "history": Command(
        "retrain", "a table of all cycles", "retrain", ("model_dir", "serving_dir"),
        ModelDirConfig,
    ),
    "reproduce": Command(
        "retrain", "train --cycle again, and say what differs",
        "retrain", ("model_dir", "cycle", "lock_stale_secs"), ReproduceConfig,
    ),
}  # fmt: skip
