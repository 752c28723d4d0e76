"""The closed table of modes: what each one does, needs and reads. Imports no TensorFlow.

To add a mode, add an entry here and a module in `commands` with `run(config, tell)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

Mode = Literal[
    "train_and_evaluate", "train", "tune", "evaluate", "predict", "export", "validate", "analyze",
    "inspect", "transform", "convert", "schema", "check_data",
    "data_service", "serve", "retrain",
    "rollback", "report",
]  # fmt: skip
TRAINING_MODES = ("train_and_evaluate", "train")
# They work on one retraining directory.
RETRAINING_MODES = ("retrain", "rollback")

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
    "schema": ModeEntry(
        "prepare data", "write a spec as a TensorFlow Metadata Schema, or a first spec from one",
        "schema",
        {"schema_file": (), "spec": ("analysis_dir",)},
        ("schema_file", "spec", "analysis_dir", "labels"), estimators=False,
    ),
    "data_service": ModeEntry(
        "prepare data", "run the dispatcher of a tf.data service, or a worker, until you stop it",
        "data_service",
        {},
        ("DataServiceSettings",), estimators=False,
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
        "look", "show what is in a model, an export or a model directory, or all cycles",
        "inspect",
        {"model_dir": ("export_dir", "spec")},
        ("model_dir", "export_dir", "serving_dir", "graph_dir", "spec", "model", "model_params"),
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
        "serve", "answer requests as TensorFlow Serving does, or write the files to start it",
        "serve",
        {"serving_models": ()},
        ("ServingSettings", "intra_op_threads", "inter_op_threads"),
        estimators=False,
    ),
    "retrain": ModeEntry(
        "retrain", "run one cycle: train on new days, compare with the live model, promote",
        "retrain",
        {"spec": ("cycle",), "model_dir": (), "train_files": ("cycle",), "window_days": ("cycle",)},
        (*_TRAINING, "eval_files", "EvaluationSettings", "ExportSettings", "RetrainingSettings",
         "min_count", *_TOLD),
        # What a cycle decides, and what is for the other modes of retraining.
        but_not=("train_days", "train_mix", "max_bad_records", "max_bad_fraction",
                 "warm_start_from", "eval_name", "to"),
    ),
    "rollback": ModeEntry(
        "retrain", "make the version --to live again",
        "retrain",
        {"model_dir": (), "to": ()},
        ("model_dir", "serving_dir", "to", "lock_stale_secs", "tracking"),
    ),
}  # fmt: skip
