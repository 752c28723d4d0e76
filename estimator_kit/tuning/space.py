"""Which values a trial draws, the values at the ends of each parameter, and the config of a trial.

    values = draw(search, trial)      # {"learning_rate": 0.03, "optimizer": "adagrad"}
    config = trial_config(search_config, values, folder)

A parameter whose conditions do not hold has no value. A condition on such a parameter does not hold
either. A trial is a run of `--mode=train_and_evaluate` in its own folder. Imports neither
TensorFlow nor Optuna: `trial` only needs Optuna's methods `suggest_...`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from estimator_kit.config.experiment_config import ModelDirConfig
from estimator_kit.config.modes import Tune, settings_of
from estimator_kit.tuning.parameter import Parameter, allowed, on_step, text_of
from estimator_kit.tuning.search_file import Search

Values = dict[str, Any]

# Where a value between the ends of a range is tried. It is not a whole number by accident.
_BETWEEN = 0.381966


class Suggests(Protocol):
    """The part of an Optuna trial that draws values."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: Any = None, log: bool = False
    ) -> float: ...

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int: ...

    def suggest_categorical(self, name: str, choices: Any) -> Any: ...


def draw(search: Search, trial: Suggests) -> Values:
    """The values that a trial has drawn, or draws now."""
    return _values(search, lambda name, parameter: _drawn(trial, name, parameter))


def _drawn(trial: Suggests, name: str, parameter: Parameter) -> Any:
    if parameter.choice is not None:
        names = categories(parameter)
        return parameter.choice[names.index(trial.suggest_categorical(name, names))]
    low, high = parameter.span
    if parameter.whole:
        return trial.suggest_int(name, low, high, step=parameter.step or 1, log=parameter.log)
    drawn = trial.suggest_float(
        name, float(low), float(high), step=parameter.step, log=parameter.log
    )
    return drawn if parameter.step is None else on_step(drawn, low, parameter.step)


def categories(parameter: Parameter) -> list[Any]:
    """The choices as Optuna stores them: numbers and words, or JSON for everything else."""
    plain = all(isinstance(each, (bool, int, float, str)) for each in parameter.choice)
    if plain and len(set(parameter.choice)) == len(parameter.choice):
        return list(parameter.choice)
    return [json.dumps(each, sort_keys=True) for each in parameter.choice]


def stored(search: Search, values: Mapping[str, Any]) -> Values:
    """Values as Optuna stores them; see `categories`."""
    stored_values = dict(values)
    for name, value in values.items():
        parameter = search.parameters[name]
        if parameter.choice is not None:
            texts = [text_of(each) for each in parameter.choice]
            stored_values[name] = categories(parameter)[texts.index(text_of(value))]
    return stored_values


def corners(search: Search) -> Iterator[tuple[str, Values]]:
    """The values of trials that a search can make, for checks before the first one.

    Together they have every choice, and both ends of every range and a value between them. Each one
    comes with the name of the parameter that it tries.
    """
    for name, parameter in search.parameters.items():
        for value in _tried(parameter):
            fixed = {**_meeting(search, name), name: value}

            def pick(each: str, other: Parameter, fixed: Values = fixed) -> Any:
                return fixed[each] if each in fixed else _tried(other)[0]

            yield name, _values(search, pick)


def _tried(parameter: Parameter) -> list[Any]:
    if parameter.choice is not None:
        return list(parameter.choice)
    low, high = parameter.span
    if parameter.whole:
        return [low, high]
    step = parameter.step or (high - low) * _BETWEEN
    return [float(low), float(low + step), float(high)]


def _meeting(search: Search, name: str) -> Values:
    """Values of other parameters with which the conditions of a parameter hold."""
    values: Values = {}
    for other, value in search.parameters[name].when.items():
        values[other] = allowed(search.parameters[other].choice, value)[0]
        values = {**_meeting(search, other), **values}
    return values


def _values(search: Search, pick: Callable[[str, Parameter], Any]) -> Values:
    """The values of the parameters whose conditions hold, in the order of the file."""
    values: Values = {}
    left = dict(search.parameters)
    while left:  # The conditions have no circle.
        for name, parameter in list(left.items()):
            if not any(other in left for other in parameter.when):
                if _holds(search, parameter, values):
                    values[name] = pick(name, parameter)
                del left[name]
    return {name: values[name] for name in search.parameters if name in values}


def _holds(search: Search, parameter: Parameter, values: Mapping[str, Any]) -> bool:
    for other, value in parameter.when.items():
        choices = search.parameters[other].choice
        wanted = [text_of(each) for each in allowed(choices, value)]
        if other not in values or text_of(values[other]) not in wanted:
            return False
    return True


# The flags that a search may set. All other names are parameters of the model.
FLAGS = (
    "model", "batch_size", "epochs", "max_steps", "seed", "shuffle", "keep_negatives", "train_days",
    "early_stopping_patience", "warm_start_from", "warm_start_mode", "warm_start_vars",
)  # fmt: skip


def trial_dir(model_dir: str, number: int) -> str:
    """The folder of a trial, such as `runs/search/trials/0012`."""
    return os.path.join(model_dir, "trials", name_of(number))


def name_of(number: int) -> str:
    """The name of a trial: 0012."""
    return f"{number:04}"


def trial_config(
    command: Tune, search: Search, values: Mapping[str, Any], model_dir: str
) -> ModelDirConfig:
    """The config of a training with the values of a trial.

    It saves one checkpoint, no export and no page, because only the best trial is served. It
    evaluates only the set that judges. If the flags do not say when to evaluate, it evaluates once
    an epoch, and ends when the metric stops improving.

    Args:
      command: the search.
      search: its metric chooses the best evaluation.
      values: the values of flags and of parameters of the model.
      model_dir: the folder of the training.

    Raises:
      ConfigError: a flag cannot have its value.
    """
    read = settings_of("train_and_evaluate") & settings_of("tune")
    flags = command.settings.model_dump(include=set(read))
    params = {name: value for name, value in values.items() if name not in FLAGS}
    changes = {
        **{name: value for name, value in values.items() if name in FLAGS},
        "mode": "train_and_evaluate",
        "model_dir": model_dir,
        "model_params": {**_kept_params(command, values), **params},
        "eval_files": command.data.judging_files,
        "exporters": (),
        "reference_models": (),
        "keep_checkpoint_max": 1,
        "best_metric": search.watched,
        "report": "off",
        "exit_code_style": "kit",
        "log_format": "text",
    }
    training = command.training
    saves = training.save_checkpoints_steps or training.save_checkpoints_secs
    if saves is None and training.early_stopping_metric is None:
        changes["early_stopping_metric"] = search.watched
    return ModelDirConfig(**{**flags, **changes})


def _kept_params(command: Tune, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of --model_params, without those that only the model of --model has."""
    choice = command.choice
    if values.get("model", choice.model) == choice.model or not choice.model_params:
        return dict(choice.model_params)
    from estimator_kit.models import find_model  # It imports TensorFlow.

    own = find_model(choice.model).Params.model_fields
    other = find_model(values["model"]).Params.model_fields
    # A name that no model has is an error of the trial.
    return {n: v for n, v in choice.model_params.items() if n in other or n not in own}
