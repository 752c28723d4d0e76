"""The modes: a class for each one, whose fields are the areas of settings that it reads.

A command reads whole areas. A setting of an area that it does not use stands in `refuses`, with
what to do instead, unless it changes nothing that the command writes. Imports no TensorFlow.

To add a mode, add a class here, its name in `areas.program.Mode`, and a module in `commands` with
`run(command, tell)`.

Functions below commands take the areas that they read, or a command if these are more than three.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast, get_args

import pydantic

from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.analysis import Analysis
from estimator_kit.config.areas.base import Settings, changes_of
from estimator_kit.config.areas.cluster import Cluster, DataService
from estimator_kit.config.areas.conversion import Conversion
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.exports import Exports
from estimator_kit.config.areas.looking import Looking
from estimator_kit.config.areas.monitoring import Monitoring
from estimator_kit.config.areas.prediction import Prediction
from estimator_kit.config.areas.program import Mode, Program
from estimator_kit.config.areas.reading import Reading
from estimator_kit.config.areas.retraining import Retraining
from estimator_kit.config.areas.run import FromExport, ModelChoice, Run
from estimator_kit.config.areas.serving import Serving
from estimator_kit.config.areas.tables import Tables
from estimator_kit.config.areas.training import Training, WarmStart, until_it_stalls
from estimator_kit.config.areas.transforming import Transforming
from estimator_kit.config.areas.tuning import Tuning
from estimator_kit.config.areas.watching import Watching

C = TypeVar("C", bound="Command")

PURPOSES = ("prepare data", "train", "look", "serve", "retrain")


class Command(pydantic.BaseModel):
    """What every command reads. A subclass is one mode; its fields are the areas that it reads.

    Attributes:
      purpose: one of `PURPOSES`; `--help` groups the modes by it.
      help: one line.
      module: the module in `commands` that has `run(command, tell)`, if it has another
        name than the mode.
      needs: the settings that must be given, each with the settings that can take its place.
      refuses: settings of its areas that it does not use, several names in one text, with what to
        do instead, or "" to name the modes that use them. A flagfile may have them, because
        several modes can share it.
      decides: settings that it decides itself, in the same form. A flagfile may not have them.
      estimators: whether it makes an Estimator or a Keras model, and so needs `compat`.
      settings: all settings, for what compares or writes them by name, such as flags.txt.
      answers: whether it writes its answers to a stream if no setting names a file for them; then
        its function is `run(command, tell, answers)`.
    """

    model_config = pydantic.ConfigDict(frozen=True, protected_namespaces=(), defer_build=True)

    purpose: ClassVar[str]
    help: ClassVar[str]
    module: ClassVar[str] = ""
    needs: ClassVar[Mapping[str, tuple[str, ...]]]
    refuses: ClassVar[Mapping[str, str]] = {}
    decides: ClassVar[Mapping[str, str]] = {}
    estimators: ClassVar[bool] = True
    answers: ClassVar[bool] = False

    program: Program
    settings: AllSettings = pydantic.Field(exclude=True)

    @classmethod
    def of(cls: type[C], config: AllSettings) -> C:
        """The command with its areas of a config, which has been checked."""
        areas: dict[str, Any] = {name: area.of(config) for name, area in areas_of(cls).items()}
        return cast(C, cls.model_construct(settings=config, **areas))


# Areas of commands that need a setting: in them, the setting is never None.


class InFolder(Run):
    model_dir: str


class GivenExport(FromExport):
    export_dir: str


class IntoShards(Conversion):
    convert_dir: str


class OfSchema(Analysis):
    schema_file: str


class Searching(Tuning):
    search: str


class IntoFolder(Transforming):
    transform_dir: str


class OnPeriods(Retraining):
    window: str


class OfCycle(Retraining):
    cycle: str


class ToVersion(Retraining):
    to: int


class OneModel(Command):
    """A command that works with one model, from a checkpoint or from an export."""

    run: Run
    choice: ModelChoice
    data: Data
    reading: Reading


class Trained(OneModel):
    """A command that works with one model in its folder."""

    run: InFolder


class Exporting(Trained):
    """A command that writes exports."""

    warm_start: WarmStart
    exports: Exports


_OTHER_FILES = "Remove the flag; it is for other files than this mode reads."
_NO_FUNCTION = "Write the rows to files with ek.write_examples, and name the files."
_TRAIN_ONLY = "Use --mode=train_and_evaluate, which also evaluates and exports."


class Analyze(Command):
    purpose = "prepare data"
    help = "write a first spec and the flags of a training, or refresh the files of a spec"
    needs = {"train_files": (), "analysis_dir": ("spec",), "labels": ("spec",)}
    refuses = {
        "threads processes deterministic": "",
        "convert_files": "Use --train_files, and --convert_dir for the records.",
        "step_columns derive_labels": "Use --mode=convert, and analyze the records.",
        "model model_params": "Write it into exp.flags, which this mode makes.",
        "model_dir": "Use --analysis_dir for the files that it writes.",
        "train_mix input_fn input_version": "Use --train_files.",
        "eval_files eval_days predict_files generate_default_data": _OTHER_FILES,
        "schema_file": "Use --mode=schema.",
    }
    estimators = False

    run: Run
    choice: ModelChoice  # For the seed of a shuffled order.
    data: Data
    tables: Tables
    analysis: Analysis
    conversion: Conversion


class Convert(Command):
    purpose = "prepare data"
    help = "write tables (Parquet, CSV, JSON lines, svmlight) as sharded TFRecord files"
    needs = {"convert_files": (), "convert_dir": ()}
    refuses = {
        "threads deterministic": "",
        "model_dir": "Use --convert_dir for the shards.",
        "model model_params": "Remove the flag; a conversion has no model.",
    }
    estimators = False

    run: Run
    choice: ModelChoice  # For the seed of a shuffled order.
    tables: Tables
    conversion: IntoShards


class CheckData(Command):
    purpose = "prepare data"
    help = "read all records, and list those that are damaged or do not fit the spec"
    needs = {"train_files": ("train_mix", "eval_files", "predict_files")}
    refuses = {
        "threads processes deterministic": "",
        "input_fn input_version generate_default_data": _NO_FUNCTION,
    }
    estimators = False

    run: Run
    data: Data


class Schema(Command):
    purpose = "prepare data"
    help = "write a spec as a TensorFlow Metadata Schema, or a first spec from one"
    needs = {"schema_file": (), "spec": ("analysis_dir",)}
    refuses = {
        "threads processes deterministic": "",
        "model_dir": "Remove the flag; only --schema_file or --analysis_dir is written.",
        "min_count": "Remove the flag; a Schema has no counts of words.",
    }
    estimators = False

    run: Run
    analysis: OfSchema


class ServeData(Command):
    purpose = "prepare data"
    help = "run the dispatcher of a tf.data service, or a worker, until you stop it"
    module = "data_service"
    needs = {}
    refuses = {
        "threads processes deterministic": "",
        "strategy job_name task_index worker_hosts ps_hosts launch_local mirrored_devices "
        "listen_on_all_interfaces backup_workers partition_mib": "Remove the flag; it is for tasks "
        "that train.",
    }
    estimators = False

    cluster: Cluster  # For --cluster_timeout_secs.
    service: DataService


class Train(Exporting):
    purpose = "train"
    help = "train without evaluating or exporting"
    module = "train"
    needs = {"spec": (), "model_dir": (), "train_files": ("train_mix", "input_fn")}
    refuses = {
        "processes": "",
        "exporters best_metric exports_to_keep default_signature slices importance "
        "reference_models": _TRAIN_ONLY,
        "eval_files eval_days predict_files eval_batch_size eval_steps eval_throttle_secs "
        "early_stopping_metric early_stopping_patience early_stopping_min_delta": _TRAIN_ONLY,
        "eval_name": "Use --mode=evaluate.",
        "data_service_port data_service_host data_service_dir": "Use --data_service.",
    }

    training: Training
    watching: Watching
    cluster: Cluster
    service: DataService


class TrainAndEvaluate(Train):
    help = "train, evaluate every checkpoint, and export (the default)"
    needs = {**Train.needs, "eval_files": ("input_fn",)}

    @classmethod
    def of(cls, config: AllSettings) -> TrainAndEvaluate:
        """The command with the length of its training, also if the config has none."""
        length = until_it_stalls(config, config)
        return super().of(config.model_copy(update=length) if length else config)

    refuses = {
        "processes": "",
        "eval_name": "Use --mode=evaluate for another evaluation.",
        "data_service_port data_service_host data_service_dir": "Use --data_service.",
    }


class Tune(Exporting):
    purpose = "train"
    help = "search the settings with the best metric, in many trainings"
    needs = {
        "spec": (), "model_dir": (), "search": (), "train_files": ("train_mix",), "eval_files": (),
    }  # fmt: skip
    refuses = {
        "input_fn input_version": _NO_FUNCTION,
        "eval_name": "Use --mode=evaluate for another evaluation.",
        "prometheus_file": "Train with the best flags to write metrics for Prometheus.",
        "job_name task_index worker_hosts ps_hosts launch_local cluster_timeout_secs "
        "listen_on_all_interfaces backup_workers partition_mib": "Each trial trains in one "
        "process. Use --processes, or start the command on several machines.",
    }

    training: Training
    watching: Watching
    cluster: Cluster
    tuning: Searching


class Evaluate(OneModel):
    purpose = "train"
    help = "evaluate the latest checkpoint, or an export, on --eval_files"
    needs = {"spec": ("export_dir",), "model_dir": ("export_dir",), "eval_files": ("input_fn",)}
    refuses = {
        "processes": "",
        "train_files train_days train_mix predict_files": "Use --eval_files.",
    }
    answers = True

    export: FromExport


class Predict(OneModel):
    purpose = "train"
    help = "predict --predict_files with the latest checkpoint or with an export"
    needs = {
        "spec": ("export_dir", "predict_dir"), "model_dir": ("export_dir", "predict_dir"),
        "predict_files": (),
    }  # fmt: skip
    refuses = {
        "train_files train_days train_mix eval_files eval_days input_fn input_version": "Use "
        "--predict_files.",
        "input_cache_dir input_cache_gib": "Remove the flag; rows are predicted once.",
        "eval_steps": "Use --predict_limit.",
        "eval_name": "Use --predict_output or --predict_dir.",
        "beam_options": "It is for --mode=convert and --mode=analyze. Remove it.",
    }
    answers = True

    export: FromExport
    tables: Tables
    prediction: Prediction


class TrainedEvaluate(Evaluate, Trained):
    """An evaluation of a checkpoint."""

    run: InFolder


class TrainedPredict(Predict, Trained):
    """Predictions with a checkpoint."""

    run: InFolder


class Export(Exporting):
    purpose = "train"
    help = "write the latest checkpoint as a SavedModel"
    needs = {"spec": (), "model_dir": ()}
    refuses = {
        "processes": "",
        "input_cache_dir input_cache_gib eval_batch_size eval_steps eval_name": "Use "
        "--mode=evaluate to evaluate the checkpoint.",
        "exporters best_metric exports_to_keep": "It "
        "writes one export, of the latest checkpoint. Remove the flag.",
        "slices importance reference_models": "Use --mode=train_and_evaluate, which measures them.",
        "warm_start_mode warm_start_vars warm_start_rename": "It trains nothing. Remove the flag.",
    }


_OF_CYCLES = (
    "as_of window eval_window window_min window_max_age promote_as watch force "
    "keep_cycles keep_versions stage_limits webhook_url_file"
)


class Inspect(Command):
    purpose = "look"
    help = "show what is in a model, an export or a model directory, or all cycles"
    needs = {"model_dir": ("export_dir", "spec")}
    refuses = {
        "threads processes deterministic": "",
        "seed": "Remove the flag; no variable gets a value.",
        "compare": "Use --mode=report.",
        "validate_rows baseline": "Use --mode=validate.",
        "to": "Remove the flag; it is for --mode=rollback and promote.",
        f"cycle period {_OF_CYCLES}": "Remove the flag; it is for --mode=retrain.",
    }

    run: Run
    choice: ModelChoice
    export: FromExport
    looking: Looking
    retraining: Retraining  # For --serving_dir.


class Report(Command):
    purpose = "look"
    help = "write the report page of a training again, or compare several trainings"
    needs = {"model_dir": ("compare",)}
    refuses = {
        "threads processes deterministic": "",
        "spec": "Remove the flag; --model_dir has the spec of its training.",
        "graph_dir": "Use --mode=inspect.",
        "validate_rows baseline": "Use --mode=validate.",
    }
    estimators = False

    run: Run
    looking: Looking


class Transform(Command):
    purpose = "look"
    help = "write an export in another form (frozen, TensorFlow Lite, items, ...)"
    needs = {"export_dir": (), "transform": (), "transform_dir": (), "predict_files": ()}
    refuses = {
        "threads processes deterministic": "",
        "train_files train_days train_mix eval_days input_fn input_version "
        "generate_default_data": _OTHER_FILES,
        "predict_output predict_limit predict_outputs top_k predict_dir": "Use --mode=predict.",
    }

    export: GivenExport
    data: Data
    prediction: Prediction  # For --keep_columns, which names an item.
    transforming: IntoFolder


class Serve(Command):
    purpose = "serve"
    help = "answer requests as TensorFlow Serving does, or write the files to start it"
    needs = {"serving_models": ()}
    refuses = {"processes deterministic": ""}
    estimators = False

    serving: Serving


class Retrain(Exporting):
    purpose = "retrain"
    help = "run one cycle: train on new data, compare with the live model, promote"
    needs = {
        "spec": ("cycle",),
        "model_dir": (),
        "train_files": ("cycle",),
        "window": ("cycle",),
    }
    decides = {
        "train_days": "Use --window, such as --window=7d.",
        "eval_days": "Use --eval_window, such as --eval_window=1d.",
        "train_mix": "A cycle reads all periods of its window as one. Use --train_files.",
        "max_bad": "A cycle leaves out whole files that are damaged. Use "
        "--window_min=1000rows as the limit.",
        "warm_start_from": "The section retraining of the spec says where a cycle starts. Remove "
        "the flag.",
        "data_service": "One process trains and evaluates a cycle. Remove the flag.",
        "export_dir": "A cycle writes its own candidate. Remove the flag.",
    }
    refuses = {
        "processes": "",
        "predict_files eval_name slices importance reference_models": "Remove the flag; a cycle "
        "has its own report.",
        "analysis_dir labels schema_file": "Use --mode=analyze.",
        "input_fn input_version": _NO_FUNCTION,
        "to": "Use --mode=rollback or promote.",
        "label_files monitor_until rollback": "Use --mode=monitor.",
    }

    training: Training
    watching: Watching
    analysis: Analysis  # For --min_count of its vocabularies.
    retraining: OnPeriods
    monitoring: Monitoring  # For the requests of its gate.


class Rollback(Command):
    purpose = "retrain"
    help = "make the version --to live again"
    module = "retrain"
    needs = {"model_dir": (), "to": ()}
    refuses = {
        "threads processes deterministic": "",
        f"spec cycle period {_OF_CYCLES}": "Remove the flag; it is for other modes of retraining.",
        "summary_steps histograms profile report prometheus_file": "Only "
        "--tracking is told of a rollback. Remove the flag.",
    }

    run: InFolder
    watching: Watching
    retraining: ToVersion


class Promote(Rollback):
    help = "make the canary --to live"


class Monitor(Command):
    purpose = "retrain"
    help = "measure what live versions answered, with late labels; roll back a bad one"
    needs = {"spec": (), "model_dir": (), "request_logs": ()}
    refuses = {
        "threads processes deterministic": "",
        f"cycle to {_OF_CYCLES}": "Remove the flag; it is for other modes of retraining.",
        "summary_steps histograms profile tracking": "Monitoring writes monitor.html and, with "
        "--prometheus_file, metrics. Remove the flag.",
    }

    run: InFolder
    watching: Watching
    retraining: Retraining  # For --serving_dir and --period.
    monitoring: Monitoring


class Validate(Command):
    purpose = "look"
    help = "check flags and spec, and rows if you ask for it, before anything runs"
    needs = {"spec": ()}
    estimators = False

    run: Run
    choice: ModelChoice
    export: FromExport
    data: Data
    reading: Reading
    training: Training
    warm_start: WarmStart
    watching: Watching
    cluster: Cluster
    service: DataService
    exports: Exports
    tuning: Tuning
    prediction: Prediction
    looking: Looking
    transforming: Transforming
    serving: Serving
    tables: Tables
    analysis: Analysis
    conversion: Conversion
    retraining: Retraining
    monitoring: Monitoring


MODES: Mapping[str, type[Command]] = {
    "analyze": Analyze,
    "convert": Convert,
    "check_data": CheckData,
    "schema": Schema,
    "data_service": ServeData,
    "train_and_evaluate": TrainAndEvaluate,
    "train": Train,
    "tune": Tune,
    "evaluate": Evaluate,
    "export": Export,
    "predict": Predict,
    "validate": Validate,
    "report": Report,
    "inspect": Inspect,
    "transform": Transform,
    "serve": Serve,
    "retrain": Retrain,
    "rollback": Rollback,
    "promote": Promote,
    "monitor": Monitor,
}

if {*MODES} != {*get_args(Mode)}:
    raise TypeError("MODES and `areas.program.Mode` name different modes.")

# What is missing, for settings whose name does not say it.
_MEANING = {
    "analysis_dir": "the folder for the first spec",
    "labels": "the features to learn, such as --labels=click,purchase",
    "serving_models": "names and folders of versions, such as ads=runs/ads/export/best",
    "window": "the time to train on, such as 7d",
    "search": "a YAML file with what to search",
    "request_logs": "the request logs of the server",
    "to": "the version to make live",
}


def command_of(config: AllSettings) -> Any:
    """The command of a config, by its mode."""
    return MODES[config.mode].of(config)


def module_of(mode: str) -> str:
    """The name of the module in `commands` that has the function of a mode."""
    return MODES[mode].module or mode


def areas_of(command: type[Command]) -> dict[str, type[Settings]]:
    """The areas that a command reads, by the names of its fields."""
    fields = {name: field.annotation for name, field in command.model_fields.items()}
    return {
        name: kind
        for name, kind in fields.items()
        if isinstance(kind, type) and issubclass(kind, Settings) and name != "settings"
    }


@functools.cache
def refusals(mode: str) -> Mapping[str, str]:
    """The settings of its areas that a mode does not use, and what to do instead."""
    return by_name({**MODES[mode].decides, **MODES[mode].refuses})


def by_name(remedies: Mapping[str, str]) -> dict[str, str]:
    """The remedy of each setting; the keys of `remedies` have one or several names."""
    return {name: remedy for names, remedy in remedies.items() for name in names.split()}


@functools.cache
def settings_of(mode: str) -> frozenset[str]:
    """The names of the settings that a mode reads."""
    areas = areas_of(MODES[mode]).values()
    return frozenset(name for area in areas for name in area.model_fields) - {*refusals(mode)}


def modes_that_read(name: str) -> list[str]:
    """The modes that read a setting."""
    return [mode for mode in MODES if name in settings_of(mode)]


def counted(mode: str, aspects: Iterable[str]) -> frozenset[str]:
    """The settings of a mode whose own values change one of these aspects.

    Settings that only point at something, such as files, are not among them: what they point at
    counts.
    """
    changes = {name: changes_of(AllSettings, name) for name in settings_of(mode)}
    return frozenset(n for n, c in changes.items() if not c.named and c.aspects & {*aspects})


def missing_settings(config: AllSettings) -> list[str]:
    """A line for each setting that the mode needs and the config does not have."""
    return [
        missing(name, config.mode, instead)
        for name, instead in MODES[config.mode].needs.items()
        if not any(getattr(config, setting) for setting in (name, *instead))
    ]


def missing(name: str, mode: str, instead: tuple[str, ...] = ()) -> str:
    """The problem of a setting that is missing; `instead` names those that can take its place."""
    needed = _MEANING.get(name, "it")
    comma = "," if "such as" in needed else ""
    unless = f"{comma} unless you give {alternatives(instead)}" if instead else ""
    return f"--{name} is missing. --mode={mode} needs {needed}{unless}."


def alternatives(names: Sequence[str]) -> str:
    """`--a, --b or --c`."""
    flags = [f"--{name}" for name in names]
    return " or ".join([*filter(None, [", ".join(flags[:-1])]), flags[-1]])
