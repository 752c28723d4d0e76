"""`ExperimentConfig`: all settings of one run, checked when it is made.

Its fields are the fields of `areas`. `flags` makes a config from the command line; a program
makes one itself. Imports no TensorFlow.
"""

from __future__ import annotations

from typing import Any

import pydantic

from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.base import Settings
from estimator_kit.config.removed import hint, mode_hint
from estimator_kit.config.rules import problems_of
from estimator_kit.errors import ConfigError
from feature_specs.errors import did_you_mean


class ExperimentConfig(AllSettings):
    """The settings of one run. Each field has the name of a flag, and `--help` describes it.

    Write settings by name, as areas of `estimator_kit.config.areas`, or both:

        ExperimentConfig(spec="spec.yaml", model_dir="run", train_files="a.tfrecord", max_steps=20)
        ExperimentConfig(Training(max_steps=20), spec="spec.yaml", ...)

    `model` may be a subclass of `ModelFn`; the config keeps its name, `package.module:ClassName`.
    `input_fn` may be any function, also a local one; the config keeps the function and its name. A
    string for a field that takes a list becomes a list with this string; commas do not split it.

    Raises:
      ConfigError: a value is out of range, or fields do not go together.
    """

    def __init__(self, *areas: Settings, **values: Any):
        places = dict.fromkeys(values, "by name")
        for area in areas:
            if not isinstance(area, Settings):
                raise ConfigError(
                    "ExperimentConfig: expected settings by name, such as mode='evaluate', or an "
                    f"area of estimator_kit.config.areas, got {area!r}."
                )
            place = f"in {type(area).__name__}"
            for name, value in area.model_dump(exclude_unset=True).items():
                if name in places:
                    raise ConfigError(
                        f"{name}: the setting is given twice, {place} and {places[name]}. Remove "
                        "one of them."
                    )
                values[name], places[name] = value, place
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            problems = [_problem(item, type(self).model_fields) for item in error.errors()]
            raise ConfigError("\n".join(problems)) from error
        if callable(values.get("input_fn")):
            self._own_function = values["input_fn"]
        problems = problems_of(self)
        if problems:
            raise ConfigError("\n".join(problems))


class ModelDirConfig(ExperimentConfig):
    """A config that the kit makes for one of several trainings, each in its own folder."""

    model_dir: str


_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_TYPES = {
    "tuple_": "a list of strings",
    "string_too_short": "text that is not empty",
    "string_": "a string",
    "int_": "an integer",
    "float_": "a number",
    "bool_": "true or false",
    "dict_": "a mapping",
}


def _problem(item: Any, fields: Any) -> str:
    name = ".".join(map(str, item["loc"][:1]))
    if item["type"] == "extra_forbidden":
        return f"unknown field {name!r}{hint(name) or did_you_mean(name, fields)}"
    if item["type"] == "missing":
        return f"--{name} is missing."
    if name == "mode":
        return f"--mode: unknown mode {item['input']!r}{mode_hint(item['input'])}"
    return f"--{name}: expected {_expected(item)}, got {item['input']!r}."


def _expected(item: Any) -> str:
    """What pydantic expected, in the words of other errors."""
    for bound, words in _BOUNDS.items():
        if bound in item.get("ctx", {}):
            return f"{words} {item['ctx'][bound]}"
    for kind, words in _TYPES.items():
        if item["type"].startswith(kind):
            return words
    return str(item["msg"].removeprefix("Input should be "))
