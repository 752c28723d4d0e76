"""The closed table of modes: what each is for, and which settings it reads. No TensorFlow.

A new mode is an entry here and a module of `commands` with `run(config, tell)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

Mode = Literal[
    "train_and_evaluate", "train", "evaluate", "predict", "export", "validate", "analyze",
    "inspect", "transform", "convert", "import_schema", "export_schema", "check_data",
    "data_service_dispatcher", "data_service_worker", "serve", "serving_config", "retrain",
    "rollback", "history", "reproduce",
]  # fmt: skip
TRAINING_MODES = ("train_and_evaluate", "train")
SERVICE_MODES = ("data_service_dispatcher", "data_service_worker")
SERVING_MODES = ("serve", "serving_config")
# Of one retraining directory; `retrain` alone reads spec and data that flags name.
RETRAINING_MODES = ("retrain", "rollback", "history", "reproduce")
SCHEMA_MODES = ("import_schema", "export_schema")
WITHOUT_SPEC = (
    "analyze", "convert", "import_schema", "check_data", "inspect", "transform",
    *SERVICE_MODES, *SERVING_MODES, "rollback", "history", "reproduce",
)  # fmt: skip
WITHOUT_MODEL_DIR = (
    "analyze", "convert", "import_schema", "check_data", "inspect", "transform", "validate",
    "export_schema", *SERVICE_MODES, *SERVING_MODES,
)  # fmt: skip

PURPOSES = ("prepare data", "train", "look", "serve", "retrain")

EVERYTHING = ("*",)


@dataclasses.dataclass(frozen=True)
class ModeEntry:
    """One mode.

    Attributes:
      purpose: one of `PURPOSES`; `--help` lists modes by it.
      help: one line.
      module: of `commands`; it has `run(config, tell)`.
      reads: the settings that the mode reads: names of whole areas of `settings`, as
        "DataSettings", names of single settings, or `EVERYTHING`.
      estimators: whether it makes an Estimator or a Keras model, and so needs `compat`.
    """

    purpose: str
    help: str
    module: str
    reads: tuple[str, ...]
    estimators: bool = True


EVERY_MODE_READS = ("mode", "exit_code_style", "log_every_secs")
_MODEL = ("spec", "model", "model_params", "model_dir", "generate_default_data")
_TRAIN_DATA = ("train_files", "train_days", "train_mix")
_EVAL_DATA = ("eval_files", "eval_days")
_TRAINING = (
    *_MODEL, "DataSettings", "BadDataSettings", "InputCacheSettings", "TrainingSettings",
    "EvaluationSettings", "ExportSettings", "MachineSettings", "lock_stale_secs",
)  # fmt: skip
_CLUSTER = ("ClusterSettings", "data_service", "data_service_timeout_secs")
_ONE_MODEL = (
    *_MODEL, "BadDataSettings", "MachineSettings", "eval_batch_size", "seed", "deterministic",
    "ClusterSettings",  # To refuse a cluster.
)  # fmt: skip

MODES: Mapping[str, ModeEntry] = {
    "analyze": ModeEntry(
        "prepare data", "write a first spec for some records, or refresh the files of a spec",
        "analyze", ("spec", *_TRAIN_DATA, "AnalysisSettings", "TableSettings"),
        estimators=False,
    ),
    "convert": ModeEntry(
        "prepare data", "write tables (Parquet, CSV, JSON lines) as sharded TFRecords",
        "convert", ("spec", "seed", "beam_options", "ConversionSettings", "TableSettings"),
        estimators=False,
    ),
    "check_data": ModeEntry(
        "prepare data", "read all records, and list what is damaged or does not fit the spec",
        "check_data", ("spec", "model_dir", *_TRAIN_DATA, *_EVAL_DATA, "predict_files"),
        estimators=False,
    ),
    "import_schema": ModeEntry(
        "prepare data", "write a first spec for a Schema of TensorFlow Metadata",
        "schema", ("schema_file", "analysis_dir", "labels"), estimators=False,
    ),
    "export_schema": ModeEntry(
        "prepare data", "write a spec as a Schema of TensorFlow Metadata",
        "schema", ("spec", "schema_file"), estimators=False,
    ),
    "data_service_dispatcher": ModeEntry(
        "prepare data", "run the dispatcher of a tf.data service until it is stopped",
        "data_service", ("data_service_port", "data_service_host", "data_service_dir"),
        estimators=False,
    ),
    "data_service_worker": ModeEntry(
        "prepare data", "run a worker of a tf.data service until it is stopped",
        "data_service",
        ("data_service", "data_service_port", "data_service_host", "data_service_dir"),
        estimators=False,
    ),
    "train_and_evaluate": ModeEntry(
        "train", "train, evaluate every checkpoint, export (the default)",
        "train", (*_TRAINING, *_CLUSTER),
    ),
    "train": ModeEntry(
        "train", "train alone", "train", (*_TRAINING, *_CLUSTER),
    ),
    "evaluate": ModeEntry(
        "train", "score the latest checkpoint, or an export, on --eval_files",
        "evaluate",
        (*_ONE_MODEL, *_EVAL_DATA, "eval_steps", "eval_name", "export_dir", "InputCacheSettings"),
    ),
    "export": ModeEntry(
        "train", "write a SavedModel of the latest checkpoint",
        "export",
        (*_ONE_MODEL, *_TRAIN_DATA, *_EVAL_DATA, "predict_files", "warm_start_from",
         "ExportSettings"),
    ),
    "predict": ModeEntry(
        "train", "predict --predict_files with the latest checkpoint or an export",
        "predict", (*_ONE_MODEL, "predict_files", "PredictionSettings", "TableSettings"),
    ),
    "validate": ModeEntry(
        "look", "check flags and spec, and on request rows, before anything runs",
        "validate", EVERYTHING, estimators=False,
    ),
    "inspect": ModeEntry(
        "look", "say what is in an export, a checkpoint or a model directory",
        "inspect", ("inspect_path", "graph_dir"),
    ),
    "transform": ModeEntry(
        "look", "write an export in another form (frozen, TensorFlow Lite, ONNX, ...)",
        "transform",
        ("export_dir", "transform", "transform_dir", "transform_inputs", "representative_files",
         "transform_tolerance", "transform_max_loss_increase", "predict_files", *_EVAL_DATA),
    ),
    "serve": ModeEntry(
        "serve", "answer gRPC and REST as TensorFlow Serving does, for development",
        "serve", ("ServingSettings", "MachineSettings"), estimators=False,
    ),
    "serving_config": ModeEntry(
        "serve", "write the files that TensorFlow Serving is started with",
        "serving_config", ("ServingSettings",), estimators=False,
    ),
    "retrain": ModeEntry(
        "retrain", "one cycle: choose days, check, train, compare with the live one, promote",
        "retrain", (*_TRAINING, "RetrainingSettings"),
    ),
    "rollback": ModeEntry(
        "retrain", "make the version --to live again",
        "retrain", ("model_dir", "serving_dir", "to", "keep_versions", "lock_stale_secs"),
    ),
    "history": ModeEntry(
        "retrain", "a table of all cycles", "retrain", ("model_dir", "serving_dir"),
    ),
    "reproduce": ModeEntry(
        "retrain", "train --cycle again, and say what differs",
        "retrain", ("model_dir", "cycle", "lock_stale_secs"),
    ),
}  # fmt: skip
