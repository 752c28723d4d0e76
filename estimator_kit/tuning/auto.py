"""`--search=auto`: a search without a file, for the spec and the flags that you have.

    search_of(command, spec)      the search, or None if --search names a file

It searches the built-in models that start on the spec (`models.SEARCHED`), the batch size, and the
parameters whose declaration in `Params` says how they are searched (`model_params.Searched`). The
first trial has the settings of the flags, the next two have the defaults of other models. The
metric is --best_metric; if that is `loss`, the metric that `analyze` suggests for the head.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.areas.exports import better, metric_of
from estimator_kit.config.modes import Tune
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_params import ModelParams, changes_of, checked_params, searched_of
from estimator_kit.models import SEARCHED, find_model
from estimator_kit.training import preparation
from estimator_kit.tuning import search_file
from estimator_kit.tuning.parameter import text_of
from estimator_kit.tuning.search_file import Search
from feature_specs.errors import SpecError
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import cores
from input_pipelines.prepare.analyze import first_settings

# How long a search lasts if nobody says it, and how many trials may bring no improvement.
SECONDS, PATIENCE = 300.0, 30

# How many models are tried with their defaults after the first trial.
_OTHERS = 2

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def search_of(command: Tune, spec: FeatureSpec) -> Optional[Search]:
    """The search of `--search=auto` or `--search=auto:10m`; None for a file.

    Raises:
      ConfigError: the time cannot be read, or the model of the flags does not start on the spec.
    """
    name, colon, time = command.tuning.search.partition(":")
    if name != "auto":
        return None
    params = _params_by_model(command, spec)
    metric, direction = _metric(command, spec)
    names = list(params)
    parameters: dict[str, Any] = {}
    if len(names) > 1:
        parameters["model"] = {"choice": names}
    size = command.training.batch_size
    parameters["batch_size"] = {"choice": sorted({max(1, size // 2), size, size * 2})}
    values = {model: _values(params[model], metric) for model in names}
    for model in names:
        for each, form in searched_of(type(params[model])).items():
            if each in values[model] and each not in parameters:
                having = [other for other in names if each in values[other]]
                tried = [values[other][each] for other in having]
                when = {"when": {"model": having}} if len(having) < len(names) else {}
                parameters[each] = {**_with(form, tried), **when}
    chosen = [{"model": model} if len(names) > 1 else {} for model in names]
    first = [
        {**model, "batch_size": size, **values[name]}
        for name, model in zip(names[: 1 + _OTHERS], chosen)
    ]
    document = {
        "metric": metric,
        "direction": direction,
        "patience": PATIENCE,
        "parameters": parameters,
        "first": first,
    }
    return search_file.parse(document, source=f"--search={command.tuning.search}").lasting(
        _seconds(time) if colon else SECONDS
    )


def processes_of(search: Search) -> int:
    """How many trials run at the same time, if nobody says it: one, or two for `auto` on a CPU.

    Much of a short trial is Python, which uses one core.
    """
    alone = search.budget is None or tf.config.list_physical_devices("GPU")
    return 1 if alone else min(2, cores())


def _seconds(time: str) -> float:
    match = re.fullmatch(r"(\d+)([smh]?)", time)
    if match is None or not int(match[1]):
        raise ConfigError(
            f"--search=auto:{time}: expected a time above 0 after the colon, such as auto:10m, "
            f"auto:300s or auto:2h. Got {time!r}."
        )
    return float(int(match[1]) * _UNITS[match[2]])


def _params_by_model(command: Tune, spec: FeatureSpec) -> dict[str, ModelParams]:
    """The parameters of each model before anything is searched; the model of the flags is first.

    A model that is not one of `SEARCHED` has another purpose, so the search does not replace it.
    """
    choice = command.choice
    kind: Any = find_model(choice.model)
    own = checked_params(choice.model, kind.Params, choice.model_params)
    preparation.model_of(choice.model, kind, spec, choice.model_params)
    params: dict[str, ModelParams] = {choice.model: own}
    for name in SEARCHED if choice.model in SEARCHED else ():
        kind = find_model(name)
        fields = kind.Params.model_fields
        searched = searched_of(kind.Params)
        kept = {n: v for n, v in choice.model_params.items() if n in fields and n not in searched}
        if name in params:
            continue
        try:
            preparation.model_of(name, kind, spec, kept)
            params[name] = checked_params(name, kind.Params, kept)
        except (ConfigError, SpecError):  # For example, the spec has no group `fields`.
            continue
    return params


def _metric(command: Tune, spec: FeatureSpec) -> tuple[str, str]:
    watched = command.exports.best_metric
    if watched == "loss":
        name, objective = next(iter(spec.objectives.items()))
        settings = first_settings.suggest(rows=1, head=objective.head, objective=name)
        watched = next((s.value for s in settings if s.flag == "best_metric"), watched)
    return metric_of(watched), better(watched) or "min"


def _values(params: ModelParams, metric: str) -> dict[str, Any]:
    """The values of the searched parameters, as a search has them."""
    kind, values = type(params), params.model_dump(mode="json")
    names = set(searched_of(kind))
    if params.optimizers is not None:  # It replaces them.
        names -= {"optimizer", "learning_rate"}
    if metric.partition("/")[0] == "loss":  # The loss of another penalty is another number.
        names = {name for name in names if "scores" not in changes_of(kind, name)}
    return {name: values[name] for name in values if name in names}


def _with(form: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """A form that also has the values that trials begin with."""
    if "choice" in form:
        choice = list(form["choice"])
        for value in values:
            if text_of(value) not in map(text_of, choice):
                choice.append(value)
        return {**form, "choice": choice}
    low, high = form["range"]
    return {**form, "range": [min(low, *values), max(high, *values)]}
