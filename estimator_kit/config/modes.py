"""The closed table of modes: what each one does, needs and reads. Imports no TensorFlow.

To add a mode, add an entry here and a module in `commands` with `run(config, tell)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

Mode = Literal[
    "train_and_evaluate", "train", "tune", "evaluate", "predict", "export", "validate", "analyze",
    "inspect", "transform", "convert", "import_schema", "export_schema", "check_data",
    "data_service_dispatcher", "data_service_worker", "serve", "serving_config", "retrain",
    "rollback", "history", "reproduce", "report",
]  # fmt: skip
TRAINING_MODES = ("train_and_evaluate", "train")
SERVING_MODES = ("serve", "serving_config")
# They work on one retraining directory. Only `retrain` also reads a spec and data.
RETRAINING_MODES = ("retrain", "rollback", "history", "reproduce")

PURPOSES = ("prepare data", "train", "look", "serve", "retrain")

EVERYTHING = ("*",)


@dataclasses.dataclass(frozen=True)
class ModeEntry:
    """One mode.

    Attributes:
      purpose: one of `PURPOSES`; `--help` groups the modes by it.
      help: one line.
      module: the module in `commands` that has `run(config, tell)`.
      needs: the settings that must be given, each with the settings that can take its place.
      reads: the settings that the mode reads: names of whole areas in `settings`, such as
        "DataSettings", names of single settings, or `EVERYTHING`.
      but_not: settings of these areas that the mode does not read.
      estimators: whether the mode makes an Estimator or a Keras model, and so needs `compat`.
      answers: whether the mode writes its answers to a stream if no setting names a file for them;
        then its function is `run(config, tell, answers)`.
    """

    purpose: str
    help: str
    module: str
    needs: Mapping[str, tuple[str, ...]]
    reads: tuple[str, ...]
    but_not: tuple[str, ...] = ()
    estimators: bool = True
    answers: bool = False


EVERY_MODE_READS = ("mode", "exit_code_style", "log_format", "log_every_secs")
_MODEL = ("spec", "model", "model_params", "model_dir", "generate_default_data")
_TRAIN_DATA = ("train_files", "train_days", "train_mix")
_OWN_DATA = ("input_fn", "input_version")
_EVAL_DATA = ("eval_files", "eval_days")
# What a training reads, whether or not it evaluates its checkpoints.
_TRAINING = (
    *_MODEL, *_TRAIN_DATA, "batch_size", "shuffle", "keep_negatives", "BadDataSettings",
    "InputCacheSettings", "TrainingSettings", "ComputeSettings", "ProfileSettings",
    "MachineSettings", "lock_stale_secs",
)  # fmt: skip
_CLUSTER = ("ClusterSettings", "data_service", "data_service_timeout_secs")
# What a training or a cycle tells people and services at its end.
_TOLD = ("report", "prometheus_file", "tracking")
_ONE_MODEL = (*_MODEL, "BadDataSettings", "MachineSettings", "seed", "deterministic")

MODES: Mapping[str, ModeEntry] = {
    "analyze": ModeEntry(
        "prepare data", "write a first spec for some records, or refresh the files of a spec",
        "analyze",
        {"train_files": (), "analysis_dir": ("spec",), "labels": ("spec",)},
        ("spec", "train_files", "train_days", "AnalysisSettings", "TableSettings"),
        but_not=("schema_file",), estimators=False,
    ),
    "convert": ModeEntry(
        "prepare data", "write tables (Parquet, CSV, JSON lines) as sharded TFRecord files",
        "convert",
        {"convert_files": (), "convert_dir": ()},
        ("spec", "seed", "beam_options", "ConversionSettings", "TableSettings"),
        estimators=False,
    ),
    "check_data": ModeEntry(
        "prepare data", "read all records, and list those that are damaged or do not fit the spec",
        "check_data",
        {"train_files": ("train_mix", "eval_files", "predict_files")},
        ("spec", "model_dir", *_TRAIN_DATA, *_EVAL_DATA, "predict_files"),
        estimators=False,
    ),
    "import_schema": ModeEntry(
        "prepare data", "write a first spec from a TensorFlow Metadata Schema",
        "schema",
        {"schema_file": (), "analysis_dir": ()},
        ("schema_file", "analysis_dir", "labels"), estimators=False,
    ),
    "export_schema": ModeEntry(
        "prepare data", "write a spec as a TensorFlow Metadata Schema",
        "schema",
        {"spec": (), "schema_file": ()},
        ("spec", "schema_file"), estimators=False,
    ),
    "data_service_dispatcher": ModeEntry(
        "prepare data", "run the dispatcher of a tf.data service until you stop it",
        "data_service",
        {},
        ("data_service_port", "data_service_host", "data_service_dir"), estimators=False,
    ),
    "data_service_worker": ModeEntry(
        "prepare data", "run a worker of a tf.data service until you stop it",
        "data_service",
        {"data_service": ()},
        ("DataServiceSettings",), but_not=("data_service_dir",), estimators=False,
    ),
    "train_and_evaluate": ModeEntry(
        "train", "train, evaluate every checkpoint, and export (the default)",
        "train",
        {"spec": (), "model_dir": (), "train_files": ("train_mix", "input_fn"),
         "eval_files": ("input_fn",)},
        (*_TRAINING, *_OWN_DATA, *_CLUSTER, *_EVAL_DATA, "predict_files", "EvaluationSettings",
         "ExportSettings", "ReportSettings"),
        but_not=("eval_name", "compare"),
    ),
    "train": ModeEntry(
        "train", "train without evaluating or exporting",
        "train",
        {"spec": (), "model_dir": (), "train_files": ("train_mix", "input_fn")},
        (*_TRAINING, *_OWN_DATA, *_CLUSTER, *_TOLD),
    ),
    "tune": ModeEntry(
        "train", "search the settings with the best metric, in many trainings",
        "tune",
        {"spec": (), "model_dir": (), "search": (), "train_files": ("train_mix",),
         "eval_files": ()},
        (*_TRAINING, *_EVAL_DATA, "predict_files", "EvaluationSettings", "ExportSettings",
         "ReportSettings", "strategy", "mirrored_devices", "TuningSettings"),
        but_not=("eval_name", "compare", "prometheus_file"),
    ),
    "evaluate": ModeEntry(
        "train", "evaluate the latest checkpoint, or an export, on --eval_files",
        "evaluate",
        {"spec": ("export_dir",), "model_dir": ("export_dir",), "eval_files": ("input_fn",)},
        (*_ONE_MODEL, *_EVAL_DATA, *_OWN_DATA, "eval_batch_size", "eval_steps", "eval_name",
         "export_dir", "InputCacheSettings"),
        answers=True,
    ),
    "export": ModeEntry(
        "train", "write the latest checkpoint as a SavedModel",
        "export",
        {"spec": (), "model_dir": ()},
        (*_ONE_MODEL, *_TRAIN_DATA, *_OWN_DATA, *_EVAL_DATA, "predict_files", "warm_start_from",
         "export_check_rows", "default_signature"),
    ),
    "predict": ModeEntry(
        "train", "predict --predict_files with the latest checkpoint or with an export",
        "predict",
        {"spec": ("export_dir", "predict_dir"), "model_dir": ("export_dir", "predict_dir"),
         "predict_files": ()},
        (*_ONE_MODEL, "predict_files", "eval_batch_size", "PredictionSettings",
         "TableSettings"),
        answers=True,
    ),
    "validate": ModeEntry(
        "look", "check flags and spec, and rows if you ask for it, before anything runs",
        "validate",
        {"spec": ()},
        EVERYTHING, estimators=False,
    ),
    "report": ModeEntry(
        "look", "write the report page of a training again, or compare several trainings",
        "report",
        {"model_dir": ("compare",)},
        ("model_dir", "compare"), estimators=False,
    ),
    "inspect": ModeEntry(
        "look", "show what is in a model, an export, a checkpoint or a model directory",
        "inspect",
        {"inspect_path": ("spec",)},
        ("inspect_path", "graph_dir", "spec", "model", "model_params"),
    ),
    "transform": ModeEntry(
        "look", "write an export in another form (frozen, TensorFlow Lite, items, ...)",
        "transform",
        {"export_dir": (), "transform": (), "transform_dir": (), "predict_files": ()},
        ("export_dir", "transform", "transform_dir", "transform_inputs", "representative_files",
         "transform_tolerance", "transform_max_loss_increase", "predict_files", "eval_files",
         "keep_columns", "item_vectors_format", "index_recall"),
    ),
    "serve": ModeEntry(
        "serve", "answer gRPC and REST requests as TensorFlow Serving does, for development",
        "serve",
        {"serving_models": ()},
        ("ServingSettings", "intra_op_threads", "inter_op_threads"),
        but_not=("serving_config_dir", "serving_batch_rows"),
        estimators=False,
    ),
    "serving_config": ModeEntry(
        "serve", "write the files that TensorFlow Serving needs to start",
        "serving_config",
        {"serving_models": (), "serving_config_dir": ()},
        ("ServingSettings",),
        but_not=("serving_host", "serving_grpc_port", "serving_rest_port"),
        estimators=False,
    ),
    "retrain": ModeEntry(
        "retrain", "run one cycle: train on new days, compare with the live model, promote",
        "retrain",
        {"spec": (), "model_dir": (), "train_files": (), "window_days": ()},
        (*_TRAINING, "eval_files", "EvaluationSettings", "ExportSettings", "RetrainingSettings",
         "min_count", *_TOLD),
        # What a cycle decides, and what is for the other modes of retraining.
        but_not=("train_days", "train_mix", "max_bad_records", "max_bad_fraction",
                 "warm_start_from", "eval_name", "to", "cycle"),
    ),
    "rollback": ModeEntry(
        "retrain", "make the version --to live again",
        "retrain",
        {"model_dir": (), "to": ()},
        ("model_dir", "serving_dir", "to", "lock_stale_secs", "tracking"),
    ),
    "history": ModeEntry(
        "retrain", "show a table of all cycles",
        "retrain",
        {"model_dir": ()},
        ("model_dir", "serving_dir"),
    ),
    "reproduce": ModeEntry(
        "retrain", "train --cycle again, and show what differs",
        "retrain",
        {"model_dir": (), "cycle": ()},
        ("model_dir", "cycle", "lock_stale_secs"),
    ),
}  # fmt: skip
