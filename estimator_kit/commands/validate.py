"""What `--mode=validate` looks at beside the spec, and without reading data: files, model, metrics.

    for line in validation_checks.report(config, spec):
        print(line)

Each line says what was looked at, or that it was not and why, so that nobody takes for right what
nobody looked at. Files are looked for, not opened. TensorFlow is imported only for a model, if a
flag names one (or its parameters, or a metric), because models are made of it.
"""

from __future__ import annotations

import glob
import importlib.util
import os
from collections.abc import Iterator

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading import files
from input_pipelines.record_files import file_systems

# Flags that make it worth building a model.
_OF_MODELS = ("model", "model_params", "best_metric", "early_stopping_metric")


def report(config: ExperimentConfig, spec: FeatureSpec) -> Iterator[str]:
    """A line for each thing; everything is checked by the time of the last one.

    Raises:
      ConfigError: a pattern matches no file, the model does not take its parameters or the spec, or
        has no metric of a name that a flag asks for.
    """
    yield from _files(config)
    yield _model(config, spec)


def _files(config: ExperimentConfig) -> Iterator[str]:
    given = {
        "train_files": config.train_files,
        "train_mix": tuple(entry.rpartition("=")[0] for entry in config.train_mix),
        "eval_files": config.eval_files,
        "predict_files": config.predict_files,
    }
    given = {flag: patterns for flag, patterns in given.items() if patterns}
    if config.generate_default_data is not None:
        if given:
            yield "  files: not looked for, since --generate_default_data may yet write them"
        return
    for flag, patterns in given.items():
        local = [pattern for pattern in patterns if file_systems.scheme_of(pattern) is None]
        days = config.days_of(flag.partition("_")[0]) if flag != "predict_files" else ()
        found = 0
        for pattern in local:
            try:
                found += len(files.expand([pattern], flag=f"--{flag}", days=days, glob=_matches))
            except DataError as error:
                raise ConfigError(str(error)) from error
        line = f"  --{flag}: {found:,} files"
        if len(local) < len(patterns):
            line += f" and {len(patterns) - len(local)} patterns elsewhere, not looked for"
        yield line
    if not given:
        yield "  files: none are named"


def _matches(pattern: str) -> list[str]:
    return [path for path in glob.glob(pattern) if not os.path.isdir(path)]


def _model(config: ExperimentConfig, spec: FeatureSpec) -> str:
    if not config.model_fields_set.intersection(_OF_MODELS):
        return "  model: not looked at; name it with --model"
    if importlib.util.find_spec("tensorflow") is None:
        return f"  model {config.model}: not looked at, since TensorFlow is not installed"
    import estimator_kit.compat  # noqa: F401  # isort: skip  # before TensorFlow: which Keras
    from estimator_kit.checkpoints import reading
    from estimator_kit.embeddings import table_memory
    from estimator_kit.training import plan
    from estimator_kit.training.preparation import make_model

    model = make_model(config, spec)
    if config.strategy is None and not config.worker_hosts:
        table_memory.check(spec, model.groups())
    outline = reading.outline(model)
    plan.check_metrics(
        config.model_copy(update={"mode": "train_and_evaluate"}), outline
    )
    return (
        f"  model {config.model}: it takes its parameters and the spec, and has the metrics that "
        "flags name"
    )
