"""The closed table of modes: what each one does, needs and reads. Imports no TensorFlow.

To add a mode, add an entry here and a module in `commands` with `run(config, tell)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from estimator_kit.config.areas import (
    AllSettings,
    Analysis,
    Cluster,
    Conversion,
    DataService,
    Exports,
    Prediction,
    Retraining,
    Serving,
    Tables,
    Training,
    Tuning,
)
from estimator_kit.config.areas.base import changes_of

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
      reads: the names of the settings that the mode reads, or `EVERYTHING`.
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


_BAD_DATA = ("corrupt_data_policy", "max_bad")
_INPUT_CACHE = ("input_cache_dir", "input_cache_gib")
_PROFILE = ("profile",)
_MACHINE = ("threads",)
_EVALUATE_IN_TRAINING = (
    "eval_throttle_secs", "early_stopping_metric",
    "early_stopping_patience",
)  # fmt: skip
_EVALUATION = ("eval_batch_size", "eval_steps", "eval_name", *_EVALUATE_IN_TRAINING)
_REPORT = ("report", "slices", "importance", "compare", "prometheus_file", "tracking")
_EXPORTS = tuple(name for name in Exports.model_fields if name not in ("slices", "importance"))
_TRAINING_AREA = (
    *(name for name in Training.model_fields if name not in _EVALUATE_IN_TRAINING), "seed",
    "deterministic", "summary_steps", "histograms",
)  # fmt: skip
EVERY_MODE_READS = ("mode", "exit_code_style", "log_format", "log_every_secs")
_MODEL = ("spec", "model", "model_params", "model_dir", "generate_default_data")
_TRAIN_DATA = ("train_files", "train_days", "train_mix")
_OWN_DATA = ("input_fn", "input_version")
_EVAL_DATA = ("eval_files", "eval_days")
# What a training reads, whether or not it evaluates its checkpoints.
_TRAINING = (
    *_MODEL, *_TRAIN_DATA, "batch_size", "shuffle", "keep_negatives", *_BAD_DATA,
    *_INPUT_CACHE, *_TRAINING_AREA, *_PROFILE, *_MACHINE,
)  # fmt: skip
_CLUSTER = (*Cluster.model_fields, "data_service")
# What a training or a cycle tells people and services at its end.
_TOLD = ("report", "prometheus_file", "tracking")
_ONE_MODEL = (*_MODEL, *_BAD_DATA, *_MACHINE, "seed", "deterministic")

MODES: Mapping[str, ModeEntry] = {
    "analyze": ModeEntry(
        "prepare data", "write a first spec for some records, or refresh the files of a spec",
        "analyze",
        {"train_files": (), "analysis_dir": ("spec",), "labels": ("spec",)},
        ("spec", "train_files", "train_days", *Analysis.model_fields, *Tables.model_fields),
        but_not=("schema_file",), estimators=False,
    ),
    "convert": ModeEntry(
        "prepare data", "write tables (Parquet, CSV, JSON lines) as sharded TFRecord files",
        "convert",
        {"convert_files": (), "convert_dir": ()},
        ("spec", "seed", "processes", "beam_options", *Conversion.model_fields,
         *Tables.model_fields),
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
        (*DataService.model_fields, "cluster_timeout_secs"), estimators=False,
    ),
    "train_and_evaluate": ModeEntry(
        "train", "train, evaluate every checkpoint, and export (the default)",
        "train",
        {"spec": (), "model_dir": (), "train_files": ("train_mix", "input_fn"),
         "eval_files": ("input_fn",)},
        (*_TRAINING, *_OWN_DATA, *_CLUSTER, *_EVAL_DATA, "predict_files", *_EVALUATION,
         *_EXPORTS, *_REPORT),
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
        (*_TRAINING, *_EVAL_DATA, "predict_files", *_EVALUATION, *_EXPORTS,
         *_REPORT, "strategy", "mirrored_devices", "processes", *Tuning.model_fields),
        but_not=("eval_name", "compare", "prometheus_file"),
    ),
    "evaluate": ModeEntry(
        "train", "evaluate the latest checkpoint, or an export, on --eval_files",
        "evaluate",
        {"spec": ("export_dir",), "model_dir": ("export_dir",), "eval_files": ("input_fn",)},
        (*_ONE_MODEL, *_EVAL_DATA, *_OWN_DATA, "eval_batch_size", "eval_steps", "eval_name",
         "export_dir", *_INPUT_CACHE),
        answers=True,
    ),
    "export": ModeEntry(
        "train", "write the latest checkpoint as a SavedModel",
        "export",
        {"spec": (), "model_dir": ()},
        (*_ONE_MODEL, *_TRAIN_DATA, *_OWN_DATA, *_EVAL_DATA, "predict_files", "warm_start_from",
         "default_signature"),
    ),
    "predict": ModeEntry(
        "train", "predict --predict_files with the latest checkpoint or with an export",
        "predict",
        {"spec": ("export_dir", "predict_dir"), "model_dir": ("export_dir", "predict_dir"),
         "predict_files": ()},
        (*_ONE_MODEL, "predict_files", "eval_batch_size", "export_dir", "processes",
         *Prediction.model_fields, *Tables.model_fields),
        but_not=("beam_options",), answers=True,
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
        ("export_dir", "transform", "transform_dir", "transform_inputs",
         "transform_tolerance", "transform_max_loss_increase", "predict_files", "eval_files",
         "keep_columns", "index_recall"),
    ),
    "serve": ModeEntry(
        "serve", "answer requests as TensorFlow Serving does, or write the files to start it",
        "serve",
        {"serving_models": ()},
        (*Serving.model_fields, "threads", ),
        estimators=False,
    ),
    "retrain": ModeEntry(
        "retrain", "run one cycle: train on new days, compare with the live model, promote",
        "retrain",
        {"spec": ("cycle",), "model_dir": (), "train_files": ("cycle",), "window_days": ("cycle",)},
        (*_TRAINING, "eval_files", *_EVALUATION, *_EXPORTS, *Retraining.model_fields,
         "min_count", *_TOLD),
        # What a cycle decides, and what is for the other modes of retraining.
        but_not=("train_days", "train_mix", "max_bad", "warm_start_from", "eval_name", "to"),
    ),
    "rollback": ModeEntry(
        "retrain", "make the version --to live again",
        "retrain",
        {"model_dir": (), "to": ()},
        ("model_dir", "serving_dir", "to", "tracking"),
    ),
}  # fmt: skip

# What is missing, for settings whose name does not say it.
_MEANING = {
    "analysis_dir": "the folder for the first spec",
    "labels": "the features to learn, such as --labels=click,purchase",
    "serving_models": "names and folders of versions, such as ads=runs/ads/export/best",
    "window_days": "the number of days to train on",
    "search": "a YAML file with what to search",
    "to": "the version to make live again",
}


def settings_of(mode: str) -> frozenset[str]:
    """The names of the settings that a mode reads."""
    entry = MODES[mode]
    if entry.reads == EVERYTHING:
        return frozenset(AllSettings.model_fields)
    return frozenset([*EVERY_MODE_READS, *entry.reads]).difference(entry.but_not)


def modes_that_read(name: str) -> list[str]:
    """The modes that read a setting."""
    return [mode for mode in MODES if name in settings_of(mode)]


def counted(mode: str, aspects: Iterable[str]) -> frozenset[str]:
    """The settings of a mode whose own values change one of these aspects.

    Settings that only point at something, such as files, are not among them: what they point at
    counts.
    """
    found = {name: changes_of(AllSettings, name) for name in settings_of(mode)}
    return frozenset(n for n, c in found.items() if not c.named and c.aspects & {*aspects})


def missing_settings(config: AllSettings) -> list[str]:
    """A line for each setting that the mode needs and the config does not have."""
    return [
        missing(name, config.mode, instead)
        for name, instead in MODES[config.mode].needs.items()
        if not any(getattr(config, given) for given in (name, *instead))
    ]


def missing(name: str, mode: str, instead: tuple[str, ...] = ()) -> str:
    """The problem of a setting that is missing; `instead` names those that can take its place."""
    unless = f" unless you give {alternatives(instead)}" if instead else ""
    return f"--{name} is missing. --mode={mode} needs {_MEANING.get(name, 'it')}{unless}."


def alternatives(names: Sequence[str]) -> str:
    """`--a, --b or --c`."""
    flags = [f"--{name}" for name in names]
    return " or ".join([*filter(None, [", ".join(flags[:-1])]), flags[-1]])
