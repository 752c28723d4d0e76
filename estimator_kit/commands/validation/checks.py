"""Checks of `--mode=validate` that read no data: files, model and metrics.

    for line in checks.report(config, spec):
        print(line)

Each line says what was checked, or what was not checked and why. Files must exist, but they are not
opened. TensorFlow is imported only if a flag names a model, its parameters or a metric.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator

from estimator_kit.config.experiment_config import ExperimentConfig, complete
from estimator_kit.config.mode_configs import TuneConfig
from estimator_kit.errors import ConfigError
from estimator_kit.tuning import search_file
from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading import files

# If one of these is set, the model is built.
_OF_MODELS = ("model", "model_params", "best_metric", "early_stopping_metric")


def report(config: ExperimentConfig, spec: FeatureSpec) -> Iterator[str]:
    """One line for each check; all checks are done when the last line comes.

    Raises:
      ConfigError: a pattern matches no file, the search cannot begin, the model does not accept its
        parameters or the spec, or it has no metric with the name that a flag asks for.
    """
    yield from files_of(config)
    if config.input_fn is not None:
        yield _input_fn(config)
    if config.search is not None:
        yield _search(config, spec)
    yield _model(config, spec)


def files_of(config: ExperimentConfig) -> Iterator[str]:
    """One line for each flag that names files.

    Raises:
      ConfigError: a pattern matches no file.
    """
    given = {
        "train_files": config.train_files,
        "train_mix": tuple(entry.rpartition("=")[0] for entry in config.train_mix),
        "eval_files": config.eval_files,
        "predict_files": config.predict_files,
    }
    given = {flag: patterns for flag, patterns in given.items() if patterns}
    if config.generate_default_data is not None:
        if given:
            yield "  files: not checked, because --generate_default_data may still write them"
        return
    for flag, patterns in given.items():
        local = [pattern for pattern in patterns if file_systems.scheme_of(pattern) is None]
        days = config.days_of(flag.partition("_")[0]) if flag != "predict_files" else ()
        found = 0
        for pattern in local:
            try:
                found += len(files.expand([pattern], flag=f"--{flag}", days=days))
            except DataError as error:
                raise ConfigError(str(error)) from error
        line = f"  --{flag}: {found:,} files"
        if len(local) < len(patterns):
            line += (
                f", and {len(patterns) - len(local)} patterns on other file systems, not checked"
            )
        yield line
    if not given and config.input_fn is None:
        yield "  files: not checked, because no flag names any"


def _input_fn(config: ExperimentConfig) -> str:
    if importlib.util.find_spec("tensorflow") is None:
        return f"  --input_fn={config.input_fn}: not checked, because TensorFlow is not installed"
    importlib.import_module("estimator_kit.compat")  # Before TensorFlow: which Keras.
    importlib.import_module("estimator_kit.training.own_input").find(config)
    return f"  --input_fn={config.input_fn}: can be imported; its rows were not read"


def _search(config: ExperimentConfig, spec: FeatureSpec) -> str:
    search = search_file.load(str(config.search))
    found = f"  --search: {len(search.parameters)} parameters"
    if importlib.util.find_spec("tensorflow") is None:
        return f"{found}; their names were not checked, because TensorFlow is not installed"
    importlib.import_module("estimator_kit.compat")  # Before TensorFlow: which Keras.
    checks = importlib.import_module("estimator_kit.tuning.checks")
    made = config.model_copy(update={"model_dir": config.model_dir or "search"})
    configs = checks.check_names(complete(made, TuneConfig), search, spec)
    checks.check_models(configs, search, spec)
    return f"{found}; the model has them and the metric {search.metric}"


def _model(config: ExperimentConfig, spec: FeatureSpec) -> str:
    if not config.model_fields_set.intersection(_OF_MODELS):
        return "  model: not checked. Name it with --model."
    if importlib.util.find_spec("tensorflow") is None:
        return f"  model {config.model}: not checked, because TensorFlow is not installed"
    importlib.import_module("estimator_kit.compat")  # Before TensorFlow: which Keras.
    importlib.import_module("estimator_kit.commands.validation.model").check(config, spec)
    return (
        f"  model {config.model}: accepts its parameters and the spec, and has the metrics that "
        "flags name"
    )
