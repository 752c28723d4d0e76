"""All rules together; those of no single kind of work are here.

A setting on its own is checked by its type, in `settings`. Imports no TensorFlow.
"""

from __future__ import annotations

import re

from estimator_kit.config.modes import (
    RETRAINING_MODES,
    SCHEMA_MODES,
    TRAINING_MODES,
    WITHOUT_MODEL_DIR,
    WITHOUT_SPEC,
)
from estimator_kit.config.patterns import pattern_problem
from estimator_kit.config.rules import cluster, data_service, prediction, retraining, serving
from estimator_kit.config.settings import AllSettings
from estimator_kit.config.settings.exports import EXPORTERS
from feature_specs.errors import did_you_mean
from input_pipelines.prepare.beam import flags
from input_pipelines.reading import days


def problems_of(config: AllSettings) -> list[str]:
    asks_export = config.mode in ("evaluate", "predict") and config.export_dir is not None
    predicts_folder = config.mode == "predict" and config.predict_dir is not None
    # An export keeps its spec and is asked without a model directory. Without --export_dir,
    # --predict_dir has a problem of its own (`prediction.problems`).
    without_model = asks_export or predicts_folder
    needs_spec = config.mode not in WITHOUT_SPEC and not without_model
    problems = ["--spec is missing"] if needs_spec and not config.spec else []
    trains = config.mode in TRAINING_MODES
    needed = {"model_dir": config.mode not in WITHOUT_MODEL_DIR and not without_model}
    needed["convert_files"] = needed["convert_dir"] = config.mode == "convert"
    needed["inspect_path"] = config.mode == "inspect"
    if config.mode == "transform":
        for field in ("export_dir", "transform", "transform_dir", "predict_files"):
            needed[field] = True
        needed["representative_files"] = config.transform == "tflite_int8"
    needed["schema_file"] = config.mode in SCHEMA_MODES
    needed["analysis_dir"] = config.mode == "import_schema"
    checks_data = config.mode == "validate" and (config.validate_rows > 0 or config.has_baseline)
    needed["train_files"] = trains or config.mode == "analyze" or checks_data
    if config.mode == "check_data":
        needed["train_files"] = not (config.train_mix or config.eval_files or config.predict_files)
    needed["eval_files"] = config.mode in ("train_and_evaluate", "evaluate")
    if config.mode == "predict":
        needed["predict_files"] = True
    retrains = config.mode == "retrain"
    needed["train_files"] = needed["train_files"] or retrains
    if trains and config.train_mix:
        needed["train_files"] = False
    for field, is_needed in needed.items():
        if is_needed and not getattr(config, field):
            problems.append(f"--{field} is missing; --mode={config.mode} needs it")
    problems += _transform_problems(config)
    if config.mode == "analyze":
        problems += _analysis_problems(config)
    if config.mode == "convert":
        problems += _conversion_problems(config)
    try:
        config.csv_options()
    except ValueError as error:
        problems.append(str(error))
    problems += _beam_problems(config)
    if config.mode == "import_schema":
        problems += _label_problems(config)
    if (trains or retrains) and config.max_steps is None and config.epochs is None:
        problems.append("give --max_steps or --epochs, to say when training ends")
    if config.save_checkpoints_steps is not None and config.save_checkpoints_secs is not None:
        problems.append("give --save_checkpoints_steps or --save_checkpoints_secs, not both")
    for field in ("max_bad_records", "max_bad_fraction"):
        if getattr(config, field) is not None and config.corrupt_data_policy == "fail":
            problems.append(
                f"--{field} is a limit for --corrupt_data_policy=skip_record or quarantine; "
                "fail stops at the first bad record"
            )
    if config.input_cache_gib is not None and config.input_cache_dir is None:
        problems.append("--input_cache_gib is a limit of --input_cache_dir; give the folder too")
    if config.baseline_files and config.baseline_statistics:
        problems.append("give --baseline_files or --baseline_statistics, not both")
    for field in (
        "train_files",
        "eval_files",
        "predict_files",
        "baseline_files",
        "convert_files",
        "representative_files",
    ):
        if "" in getattr(config, field):
            problems.append(f"--{field}: a name is empty")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]*", config.eval_name):
        problems.append(
            f"--eval_name: got {config.eval_name!r}, expected letters, digits, _, - and ., since "
            "files are named after it"
        )
    problem = pattern_problem(config.warm_start_vars)
    if problem is not None:
        problems.append(f"--warm_start_vars: {problem}")
    problems += data_service.problems(config)
    problems += cluster.problems(config)
    problems += serving.problems(config)
    problems += prediction.problems(config)
    if config.mode in RETRAINING_MODES:
        problems += retraining.problems(config)
    problems += _rename_problems(config)
    problems += _direction_problems(config)
    for i, name in enumerate(config.exporters):
        if name in config.exporters[:i]:
            problems.append(f"--exporters: {name!r} is there twice")
        elif name not in EXPORTERS:
            problems.append(f"--exporters: no exporter {name!r}{did_you_mean(name, EXPORTERS)}")
    if "step" in config.exporters and config.export_every_steps is None:
        problems.append(
            "--export_every_steps is missing; say how many steps are between the exports of step"
        )
    if "step" not in config.exporters and config.export_every_steps is not None:
        problems.append("--export_every_steps is for the exporter step; add it to --exporters")
    selection = _selection_problems(config)
    problems += selection
    overlap = set() if selection else set(config.patterns_of("train"))
    overlap &= set() if selection else set(config.patterns_of("eval"))
    if trains and overlap:
        problems.append(
            f"--train_files and --eval_files share {', '.join(sorted(overlap))}: "
            "a model must not be scored on what it was trained on"
        )
    return problems


def _transform_problems(config: AllSettings) -> list[str]:
    problems = []
    if config.representative_files and config.transform != "tflite_int8":
        problems.append("--representative_files is read by --transform=tflite_int8 alone")
    if config.transform_inputs != "features":
        if config.transform in (None, "freeze", "optimize", "text", "binary"):
            problems.append(
                f"--transform_inputs={config.transform_inputs} is for --transform=tflite, "
                "tflite_dynamic, tflite_int8 and onnx"
            )
    return problems


def _selection_problems(config: AllSettings) -> list[str]:
    problems = []
    for which in ("train", "eval"):
        try:
            window = config.days_of(which)
        except ValueError as error:
            problems.append(f"--{which}_days: {error}")
            continue
        fields = ("train_files", "train_mix") if which == "train" else ("eval_files",)
        if window and not any(getattr(config, field) for field in fields):
            problems.append(f"--{which}_days chooses from --{which}_files; give them too")
        for field in fields if window else ():
            for entry in getattr(config, field):
                pattern = entry.rpartition("=")[0] if field == "train_mix" else entry
                try:
                    days.of_days(pattern, window)
                except ValueError as error:
                    problems.append(f"--{field}, with --{which}_days: {error}")
    if config.train_mix and config.train_files:
        problems.append("give --train_files or --train_mix, not both")
    for entry in config.train_mix:
        if not re.fullmatch(r".+=0*([1-9]\d{0,3}|10000)", entry):
            problems.append(
                f"--train_mix: got {entry!r}, expected pattern=share with a whole number "
                "from 1 to 10000, as in data/ads/*.tfrecord=3"
            )
    by_clock = config.deterministic and config.save_checkpoints_steps is None
    if by_clock and config.early_stopping_metric is not None:
        problems.append(
            "--deterministic with --early_stopping_metric needs --save_checkpoints_steps: "
            "evaluations that come by the clock stop another run elsewhere"
        )
    return problems


def _direction_problems(config: AllSettings) -> list[str]:
    """Directions that have to be said: those of other metrics than losses, which do by min."""
    watched = {"early_stopping": config.early_stopping_metric}
    if {"best", "best_k"}.intersection(config.exporters):
        watched["best"] = config.best_metric
    return [
        f"--{what}_direction is missing; say whether a better {metric} is lower (min) or "
        "higher (max)"
        for what, metric in watched.items()
        if metric is not None
        and metric.partition("/")[0] != "loss"
        and getattr(config, f"{what}_direction") is None
    ]


def _rename_problems(config: AllSettings) -> list[str]:
    problems = []
    for rename in config.warm_start_rename:
        old, _, new = rename.rpartition("=")
        if not old or not new:
            problems.append(f"--warm_start_rename: got {rename!r}, expected old=new")
            continue
        problem = pattern_problem(old)
        if problem is not None:
            problems.append(f"--warm_start_rename: {problem}")
    return problems


def _analysis_problems(config: AllSettings) -> list[str]:
    if config.spec:
        return [
            f"--{field} is for a first spec; with --spec, --mode=analyze refreshes the files "
            "that this spec refers to"
            for field in ("analysis_dir", "labels")
            if getattr(config, field)
        ]
    problems = []
    if not config.analysis_dir:
        problems.append(
            "--analysis_dir is missing; --mode=analyze writes a first spec there, or refreshes "
            "the files of a --spec"
        )
    if not config.labels:
        problems.append(
            "--labels is missing; name the features that are to be learned, as in "
            "--labels=click,purchase"
        )
    return problems + _label_problems(config)


def _conversion_problems(config: AllSettings) -> list[str]:
    problems = []
    if config.split_key is not None and config.eval_fraction is None:
        problems.append(
            "--eval_fraction is missing; say which share of the keys of --split_key is for "
            "evaluation, as 0.1"
        )
    if config.eval_fraction is not None and config.split_key is None:
        problems.append(
            "--split_key is missing; name the column whose values are on one side each, as user_id"
        )
    if config.step_columns and config.spec:
        problems.append(
            "--step_columns is for a conversion without --spec; a spec says feature_list: true"
        )
    for i, name in enumerate(config.step_columns):
        if name in config.step_columns[:i] or not name:
            what = "there twice" if name else "no name"
            problems.append(f"--step_columns: {name!r} is {what}")
    return problems


def _beam_problems(config: AllSettings) -> list[str]:
    if config.beam_options is None:
        return []
    problems = []
    if config.mode not in ("analyze", "convert"):
        problems.append("--beam_options is for --mode=convert and --mode=analyze")
    if config.convert_processes is not None:
        problems.append(
            "--convert_processes is for a conversion without --beam_options, whose runner has "
            "flags of its own for the number of workers"
        )
    try:
        config.beam_flags()
    except flags.BeamFlagsError as error:
        problems.append(f"--beam_options: {error}")
    return problems


def _label_problems(config: AllSettings) -> list[str]:
    return [
        f"--labels: {name!r} is {'there twice' if name else 'no name'}"
        for i, name in enumerate(config.labels)
        if name in config.labels[:i] or not name
    ]
