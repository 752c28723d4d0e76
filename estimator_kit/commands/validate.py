"""`--mode=validate`: checks flags, spec and model, and rows if you ask for it. Changes nothing.

Each line says what was checked, or what was not checked and why. Files must exist, but only files
of pretrained vectors are opened; `feature_specs.embeddings.pretrained_files` says how far.
TensorFlow is imported only if a check needs it: for a model, its parameters or a metric that a flag
names, or for rows.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
from collections.abc import Callable, Iterable, Iterator

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.run import Run
from estimator_kit.config.modes import Tune, Validate
from estimator_kit.errors import ConfigError
from estimator_kit.result import RunResult
from estimator_kit.tuning import search_file
from feature_specs.embeddings import pretrained_files
from feature_specs.files import file_systems
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading import files

# How many names of each kind the report of a spec lists.
_NAMED = 12

# If one of these is set, the model is built.
_OF_MODELS = ("model", "model_params", "best_metric", "early_stopping_metric")


def run(command: Validate, tell: Callable[[str], None]) -> RunResult:
    """Reports what is in the spec, then the result of each check of rows.

    Raises:
      SpecError, ConfigError: something cannot be used; the checks before it have been reported.
      DataError: a file cannot be read.
    """
    tell(validation_report(command))
    if command.looking.validate_rows or command.looking.baseline:
        data = importlib.import_module("estimator_kit.commands.validated_data")
        for text in data.reports(command):
            tell(text)
        tell(f"{command.run.spec}: the spec, the flags and the data fit together")
    return RunResult(mode=command.program.mode)


def validation_report(command: Validate) -> str:
    """Reads the spec and describes it; raises SpecError if it cannot be used.

    It also checks pretrained vectors, because a training would refuse them if they were wrong.
    """
    spec = parser.load(command.run.spec)
    with_data = command.looking.validate_rows or command.looking.baseline
    heading = "the spec and the flags are correct, as far as the lines below show"
    if with_data:
        heading = "the spec and the flags, before the data"
    lines = [f"{command.run.spec}: {heading}"]
    for what in ("features", "columns", "labels", "objectives"):
        names = getattr(spec, what)
        lines.append(f"  {len(names):>3} {what}: {_some(names)}")
    for group, columns in spec.groups.items():
        lines.append(f"  group {group}, {len(columns)} columns: {_some(columns)}")
    lines += pretrained_lines(command.run, spec)
    lines += _checks(command, spec)
    if with_data:
        lines.append("  data: the result comes below")
    else:
        lines.append("  data: not read; --validate_rows=1000 compares rows with the spec")
    if spec.drift.any and not command.looking.baseline:
        lines.append(
            "  drift: only its thresholds were checked; --baseline says what to compare records "
            "with"
        )
    return "\n".join(lines)


def _some(names: Iterable[str]) -> str:
    """The names, or the first ones if there are many."""
    every = list(names)
    more = f", and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


def _checks(command: Validate, spec: FeatureSpec) -> Iterator[str]:
    """One line for each check; all checks are done when the last line comes.

    Raises:
      ConfigError: a pattern matches no file, the search cannot begin, the model does not accept its
        parameters or the spec, or it has no metric with the name that a flag asks for.
    """
    yield from checked_files(command.data)
    if command.data.input_fn is not None:
        yield _input_fn(command.data)
    if command.tuning.search is not None:
        yield _search(command, spec)
    yield _model(command, spec)


def checked_files(data: Data) -> Iterator[str]:
    """One line for each flag that names files.

    Raises:
      ConfigError: a pattern matches no file.
    """
    patterns_of = {
        "train_files": data.train_files,
        "train_mix": tuple(entry.rpartition("=")[0] for entry in data.train_mix),
        "eval_files": (*data.judging_files, *itertools.chain(*data.other_sets.values())),
        "predict_files": data.predict_files,
    }
    patterns_of = {flag: patterns for flag, patterns in patterns_of.items() if patterns}
    if data.generate_default_data is not None:
        if patterns_of:
            yield "  files: not checked, because --generate_default_data may still write them"
        return
    for flag, patterns in patterns_of.items():
        local = [pattern for pattern in patterns if file_systems.scheme_of(pattern) is None]
        days = data.days_of(flag.partition("_")[0]) if flag != "predict_files" else ()
        count = 0
        for pattern in local:
            try:
                count += len(files.expand([pattern], flag=f"--{flag}", days=days))
            except DataError as error:
                raise ConfigError(str(error)) from error
        line = f"  --{flag}: {count:,} files"
        if len(local) < len(patterns):
            line += (
                f", and {len(patterns) - len(local)} patterns on other file systems, not checked"
            )
        yield line
    if not patterns_of and data.input_fn is None:
        yield "  files: not checked, because no flag names any"


def _input_fn(data: Data) -> str:
    if importlib.util.find_spec("tensorflow") is None:
        return f"  --input_fn={data.input_fn}: not checked, because TensorFlow is not installed"
    importlib.import_module("estimator_kit.compat")  # Before TensorFlow: which Keras.
    importlib.import_module("estimator_kit.training.own_input").find(data)
    return f"  --input_fn={data.input_fn}: can be imported; its rows were not read"


def _search(command: Validate, spec: FeatureSpec) -> str:
    path = str(command.tuning.search)
    is_auto = path.partition(":")[0] == "auto"
    search = None if is_auto else search_file.load(path)
    line = "  --search" + ("" if search is None else f": {len(search.parameters)} parameters")
    if importlib.util.find_spec("tensorflow") is None:
        return f"{line}; their names were not checked, because TensorFlow is not installed"
    importlib.import_module("estimator_kit.compat")  # Before TensorFlow: which Keras.
    checks = importlib.import_module("estimator_kit.tuning.checks")
    settings = command.settings.model_copy(update={"model_dir": command.run.model_dir or "search"})
    tune = Tune.of(settings)
    if search is None:
        search = importlib.import_module("estimator_kit.tuning.auto").search_of(tune, spec)
        line += f": {len(search.parameters)} parameters"
    configs = checks.check_names(tune, search, spec)
    checks.check_models(configs, search, spec, all_models=not is_auto)
    return f"{line}; the model has them and the metric {search.metric}"


def _model(command: Validate, spec: FeatureSpec) -> str:
    if not command.settings.model_fields_set.intersection(_OF_MODELS):
        return "  model: not checked. Name it with --model."
    if importlib.util.find_spec("tensorflow") is None:
        return f"  model {command.choice.model}: not checked, because TensorFlow is not installed"
    importlib.import_module("estimator_kit.compat")  # Before TensorFlow: which Keras.
    importlib.import_module("estimator_kit.commands.validated_data").check_model(command, spec)
    return (
        f"  model {command.choice.model}: accepts its parameters and the spec, and has the metrics "
        "that flags name"
    )


def pretrained_lines(run: Run, spec: FeatureSpec) -> list[str]:
    """A line for each column with pretrained vectors, followed by its warning if it has one.

    A run that continues from a checkpoint does not read these files, so they may be missing then.

    Raises:
      SpecError: files are missing or do not fit.
    """
    columns = pretrained_files.columns_with(spec)
    if not columns:
        return []
    if run.model_dir and os.path.exists(os.path.join(run.model_dir, "checkpoint")):
        return [
            "  pretrained vectors: not checked, because the checkpoint in --model_dir has them: "
            f"{', '.join(columns)}"
        ]
    lines = []
    for looked in pretrained_files.check(spec):
        lines.append(f"  pretrained {looked.column}: {looked.file}: {looked.text}")
        if looked.warning is not None:
            lines.append(f"  warning: {looked.warning}")
    return lines
