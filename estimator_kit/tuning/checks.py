"""Everything that can be wrong with a search, found before its first trial.

    check_names(config, search, spec)       flags and parameters exist, and take the values
    check_models(config, search, spec)      each model is built, and has the metric

A search that passes can still have trials that fail, for example because the loss becomes NaN.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import model_outline
from estimator_kit.config.areas.run import ModelChoice
from estimator_kit.config.areas.training import Training
from estimator_kit.config.cluster import view_problems
from estimator_kit.config.experiment_config import ExperimentConfig, ModelDirConfig
from estimator_kit.config.modes import Tune
from estimator_kit.embeddings import table_memory
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_params import checked_params
from estimator_kit.models import find_model
from estimator_kit.training import plan, preparation
from estimator_kit.tuning import final_test
from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import FLAGS, Values, corners, trial_config, trial_dir
from estimator_kit.tuning.study import JOURNAL
from feature_specs.errors import did_you_mean, value_text
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading import files


def check_names(
    command: Tune, search: Search, spec: FeatureSpec
) -> list[tuple[Values, ModelDirConfig]]:
    """The configs of trials that together try every value at the ends of the search.

    Raises:
      ConfigError: a name is neither a flag that a search may set nor a parameter of the model, or a
        value is refused. The message lists the first problem of each parameter.
    """
    _check_pruner(command.training, search)
    params = _known_params(command.choice, search)
    problems: dict[str, ConfigError] = {}
    for name in search.parameters:
        message = _name_problem(name, params)
        if message is not None:
            problems[name] = search.error(("parameters", name), message)
    _raise(problems)  # With an unknown name, every trial would have this problem.
    configs = []
    for name, values in corners(search):
        if name in problems:
            continue
        try:
            trial = _checked(command, search, values, spec)
        except ConfigError as error:
            text = f"with {value_text(values.get(name))}: {error}"
            problems[name] = search.error(("parameters", name), text)
        else:
            configs.append((values, trial))
    _raise(problems)
    return configs


def _raise(problems: Mapping[str, ConfigError]) -> None:
    if problems:
        raise ConfigError("\n".join(str(problem) for problem in problems.values()))


def check_models(
    configs: list[tuple[Values, ModelDirConfig]],
    search: Search,
    spec: FeatureSpec,
    *,
    all_models: bool = True,
) -> None:
    """Builds each model of the search once, or only the first one; trains nothing.

    Raises:
      ConfigError: a model does not accept its parameters or the spec, its tables do not fit into
        memory, or it lacks the metric of the search or of a flag.
    """
    first = {config.model: config for _, config in reversed(configs)}
    for config in first.values() if all_models else [configs[0][1]]:
        model = preparation.make_model(config, spec)
        table_memory.check(spec, model.groups())
        outline = model_outline.outline(model)
        if search.metric not in outline.metrics:
            hint = did_you_mean(search.metric, sorted(outline.metrics))
            raise search.error(
                ("metric",),
                f"got {search.metric!r}, but the model {config.model} has no such metric{hint}",
            )
        plan.check_metrics(config, config, config, outline)


def check_folder(model_dir: str) -> None:
    """Raises ConfigError if the folder holds a training and no search."""
    has = {
        name: tf.io.gfile.exists(os.path.join(model_dir, name)) for name in ("checkpoint", JOURNAL)
    }
    if has["checkpoint"] and not has[JOURNAL]:
        raise ConfigError(
            f"--model_dir={model_dir} holds a training, and a search needs a separate folder. "
            "Choose another --model_dir."
        )


def check_test_files(command: Tune) -> list[str]:
    """The files that score the result, see `final_test`.

    Raises:
      ConfigError: a pattern matches no file, or a trial reads one of the files.
    """
    test, name = final_test.patterns(command), final_test.name(command)
    if not test:
        return []
    try:
        paths = files.expand(test, flag=name)
        for flag in ("train", "eval"):
            patterns = command.data.patterns_of(flag)
            read = files.expand(patterns, flag=f"--{flag}_files") if patterns else []
            shared = files.shared(paths, read)
            if shared:
                raise ConfigError(
                    f"--{flag}_files and {name} share {len(shared)} files, the first is "
                    f"{shared[0]}. Score the best trial on files that the search has not seen."
                )
    except DataError as error:
        raise ConfigError(str(error)) from error
    return paths


def _check_pruner(training: Training, search: Search) -> None:
    if search.pruner != "none" and training.save_checkpoints_secs is not None:
        raise search.error(
            ("pruner",),
            f"the pruner {search.pruner} compares trials at equal rows, but checkpoints are saved "
            "by the clock. Remove --save_checkpoints_secs, or write `pruner: none`.",
        )


def _known_params(choice: ModelChoice, search: Search) -> set[str]:
    """The parameters of the models that trials can have."""
    parameter = search.parameters.get("model")
    names = [choice.model] if parameter is None or parameter.when else []
    chosen = [str(each) for each in (parameter.choice or ())] if parameter is not None else []
    parameter_names: set[str] = set()
    for name in (*names, *chosen):
        try:
            parameter_names.update(find_model(name).Params.model_fields)
        except ConfigError as error:
            if name not in chosen:
                raise
            raise search.error(("parameters", "model"), str(error)) from error
    return parameter_names


def _name_problem(name: str, params: set[str]) -> Optional[str]:
    if name in FLAGS:
        if name in params:
            return (
                "is the name of a flag and of a parameter of the model. Rename the parameter of "
                "your model."
            )
        return None
    if name in params:
        return None
    if name in ExperimentConfig.model_fields:
        return f"a search cannot set the flag --{name}. It can set {', '.join(FLAGS)}."
    return f"unknown flag or parameter of the model{did_you_mean(name, [*FLAGS, *sorted(params)])}"


def _checked(command: Tune, search: Search, values: Values, spec: FeatureSpec) -> ModelDirConfig:
    trial = trial_config(command, search, values, trial_dir(command.run.model_dir, 0))
    kind: Any = find_model(trial.model)
    checked_params(trial.model, kind.Params, trial.model_params)  # Names the model.
    # It also checks optimizers and schedules.
    preparation.model_of(trial.model, kind, spec, trial.model_params)
    problems = view_problems(trial, None)
    if problems:
        raise ConfigError("\n".join(problems))
    return trial
