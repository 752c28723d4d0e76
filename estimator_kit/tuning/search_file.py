"""The file of a search, `--search=search.yaml`: what is searched, for how long, and how.

    metric: auc/click
    direction: max
    trials: 20
    parameters:
      learning_rate: {range: [0.01, 0.5], log: true}
      optimizer: {choice: [adagrad, lazy_adam]}
      batch_size: {choice: [256, 512, 1024]}
      clip_norm: {range: [1, 10], when: {optimizer: lazy_adam}}

The YAML has the form and the limits of a feature spec, and the same reader
(`feature_specs.parser.yaml_reader`). This module checks all that the file alone shows. It does not
know which parameters a model has; see `checks`. Imports neither TensorFlow nor Optuna.
"""

from __future__ import annotations

import decimal
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from estimator_kit.errors import ConfigError
from feature_specs.entry import Entry, PositiveFloat, PositiveInt, as_tuple
from feature_specs.errors import (
    Path,
    Problem,
    SpecError,
    did_you_mean,
    located,
    value_text,
)
from feature_specs.parser.entry_messages import entry_at, message_of, place_in
from feature_specs.parser.yaml_reader import LONGEST, Lines, read_text, too_long

Number = Union[int, float]


def _bounds(value: Any) -> Any:
    numbers = isinstance(value, (list, tuple)) and all(map(_is_number, value))
    if not numbers or len(value) != 2:
        raise ValueError(f"got {value_text(value)}, expected two numbers, as in [0.01, 0.1]")
    if value[0] >= value[1]:
        raise ValueError(
            f"got {value_text(value)}, expected a low end below the high end, as in [0.01, 0.1]"
        )
    return tuple(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _choices(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or len(value) < 2:
        raise ValueError(f"got {value_text(value)}, expected a list of two or more values")
    texts = [json.dumps(each, sort_keys=True) for each in value]
    for i, text in enumerate(texts):
        if text in texts[:i]:
            raise ValueError(f"the value {text} is listed twice. Remove one of them.")
    return tuple(value)


def _step(value: Any) -> Any:
    if value is not None and not (_is_number(value) and value > 0):
        raise ValueError(f"got {value_text(value)}, expected a number above 0")
    return value


class Parameter(Entry):
    """One parameter of a search: a range of numbers, or a list of choices.

    Attributes:
      span: the lowest and the highest value (`range` in the file).
      log: whether small values are drawn as often as large ones, as in 0.001 to 0.01 and 0.01 to
        0.1.
      whole: whether only whole numbers are drawn (`int` in the file).
      step: the distance between two values that can be drawn; by default any number is drawn.
      choice: the values, of any form that the flag or the parameter of the model takes.
      when: the parameter is drawn only if each of these other parameters has this value, or one of
        these values. Otherwise it keeps the value of the flags.
    """

    span: Annotated[Any, pydantic.BeforeValidator(_bounds)] = Field(None, alias="range")
    log: bool = False
    whole: bool = Field(False, alias="int")
    step: Annotated[Any, pydantic.BeforeValidator(_step)] = None
    choice: Annotated[Any, pydantic.BeforeValidator(_choices)] = None
    when: dict[str, Any] = Field({})

    @pydantic.model_validator(mode="after")
    def _check(self) -> Parameter:
        if (self.span is None) == (self.choice is None):
            raise ValueError("expected either `range` or `choice`, as in {range: [0.01, 0.1]}")
        if self.choice is not None:
            for name, given in (("log", self.log), ("int", self.whole), ("step", self.step)):
                if given:
                    raise ValueError(f"`{name}` is for a `range`, not for a `choice`. Remove it.")
            return self
        if self.log and self.span[0] <= 0:
            raise ValueError(
                f"`log` needs a range above 0, got {list(self.span)}. Raise the low end, or remove "
                "`log`."
            )
        if self.log and self.step is not None:
            raise ValueError("`log` and `step` do not go together. Remove one of them.")
        if self.whole:
            for value in (*self.span, *([self.step] if self.step is not None else [])):
                if type(value) is not int:
                    raise ValueError(f"`int` needs whole numbers, got {value}. Round it.")
        if self.step is not None:
            if _rest(self.span[1], self.span[0], self.step):
                raise ValueError(
                    f"the step {self.step} does not lead from {self.span[0]} to {self.span[1]}. "
                    "Change the step or the range."
                )
        return self


class Search(Entry):
    """A search.

    Attributes:
      parameters: what is searched: flags, and parameters of the model.
      metric: the metric of the last evaluation of a trial, such as `auc/click` or `loss`.
      direction: whether a better metric is lower (min) or higher (max). Every metric except a loss
        needs it.
      trials: how many trials the search makes.
      seconds: no trial begins when the trials have taken this long together. Two trials at the
        same time count twice.
      first: values of the first trials, such as the ones in use. What an entry leaves out is drawn.
      sampler: `tpe` draws more often where trials were good; `random` does not look at them.
      seed: decides what is drawn.
      pruner: what ends a trial early. `median`: its metric is worse than the median of other
        trials after as many rows. `hyperband`: successive halving with several budgets. `none`:
        nothing.
      source: the path of the file.
      lines: the line of each place in the file.
    """

    parameters: dict[str, Parameter] = Field(min_length=1)
    metric: str = Field(min_length=1)
    direction: Optional[Literal["min", "max"]] = None
    trials: Optional[PositiveInt] = None
    seconds: Optional[PositiveFloat] = None
    first: Annotated[tuple[dict[str, Any], ...], pydantic.BeforeValidator(as_tuple)] = ()
    sampler: Literal["tpe", "random"] = "tpe"
    seed: int = 1
    pruner: Literal["median", "hyperband", "none"] = "median"

    _source: str = pydantic.PrivateAttr("<dict>")
    _lines: Lines = pydantic.PrivateAttr(default_factory=dict)

    @property
    def maximizes(self) -> bool:
        return self.direction == "max"

    def error(self, path: Path, message: str) -> ConfigError:
        """An error at a place of the file."""
        return _error(self._source, [located(path, message, self._lines)])


def load(path: str) -> Search:
    """Reads the file of a search.

    Raises:
      ConfigError: the file cannot be read or has mistakes; the message lists them with their lines.
    """
    try:
        with pathlib.Path(path).open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    except (OSError, ValueError) as error:  # Such as a path with a NUL, or invalid UTF-8.
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"--search={path}: cannot be read: {reason}. Check the path.") from error
    if len(text) > LONGEST:
        raise ConfigError(f"{path}: {too_long(f'more than {LONGEST:,} characters')}")
    try:
        document, lines = read_text(text, path)
    except SpecError as error:
        raise _error(path, error.problems) from error
    return parse(document, source=path, lines=lines)


def parse(document: Any, *, source: str = "<dict>", lines: Optional[Lines] = None) -> Search:
    """Makes a search from the values of its file; see `load`."""
    lines = lines or {}
    try:
        search = Search.model_validate(document)
    except pydantic.ValidationError as error:
        problems = [_problem(document, item, lines) for item in error.errors()]
        raise _error(source, problems) from error
    search._source, search._lines = source, lines
    problems = [located(path, message, lines) for path, message in _problems(search)]
    if problems:
        raise _error(source, problems)
    return search


def _problem(document: Any, item: Any, lines: Lines) -> Problem:
    path = place_in(document, item["loc"], missing=item["type"] in ("missing", "extra_forbidden"))
    around = document
    if item["type"] == "extra_forbidden":
        around = entry_at(document, path[:-1])
    return located(path, message_of(Search, item, around), lines)


def _problems(search: Search) -> list[tuple[Path, str]]:
    """What does not go together."""
    found: list[tuple[Path, str]] = []
    if search.trials is None and search.seconds is None:
        found.append(((), "`trials` and `seconds` are missing. Give at least one of them."))
    if search.direction is None and search.metric.partition("/")[0] != "loss":
        found.append(
            (
                ("metric",),
                f"`direction` is missing. Say whether a better {search.metric} is lower (min) or "
                "higher (max).",
            )
        )
    for name, parameter in search.parameters.items():
        for other, value in parameter.when.items():
            path = ("parameters", name, "when", other)
            message = _condition_problem(search.parameters, name, other, value)
            if message is not None:
                found.append((path, message))
    for i, entry in enumerate(search.first):
        for name, value in entry.items():
            message = _value_problem(search.parameters, name, value)
            if message is not None:
                found.append((("first", i, name), message))
    if not found:
        found += [
            (("parameters", name, "when"), "the conditions go round in a circle. Remove one.")
            for name in search.parameters
            if _depends_on(search.parameters, name, name)
        ]
    return found


def _condition_problem(
    parameters: Mapping[str, Parameter], name: str, other: str, value: Any
) -> Optional[str]:
    if other not in parameters:
        known = [each for each in parameters if each != name]
        return (
            f"got {other!r}, expected another parameter of the search{did_you_mean(other, known)}"
        )
    choices = parameters[other].choice
    if choices is None:
        return f"{other!r} is a range, and a condition needs a parameter with `choice`"
    if not set(map(text_of, allowed(choices, value))) <= set(map(text_of, choices)):
        return f"got {value_text(value)}, expected one or several of {list(choices)}"
    return None


def _value_problem(parameters: Mapping[str, Parameter], name: str, value: Any) -> Optional[str]:
    """Why a parameter cannot have a value, or None."""
    if name not in parameters:
        return f"got {name!r}, expected a parameter of the search{did_you_mean(name, parameters)}"
    parameter = parameters[name]
    if parameter.choice is not None:
        if text_of(value) in map(text_of, parameter.choice):
            return None
        return f"got {value_text(value)}, expected one of {list(parameter.choice)}"
    low, high = parameter.span
    whole = type(value) is int or not parameter.whole
    if not (_is_number(value) and low <= value <= high and whole):
        kind = "a whole number" if parameter.whole else "a number"
        return f"got {value_text(value)}, expected {kind} from {low} to {high}"
    if parameter.step is not None and _rest(value, low, parameter.step):
        return f"got {value}, expected {low} or a number of steps of {parameter.step} above it"
    return None


def _rest(value: Number, low: Number, step: Number) -> decimal.Decimal:
    """What is left of the way from `low` to `value` after whole steps; exact for tenths."""
    return (decimal.Decimal(str(value)) - decimal.Decimal(str(low))) % decimal.Decimal(str(step))


def _depends_on(parameters: Mapping[str, Parameter], name: str, wanted: str) -> bool:
    seen: set[str] = set()
    waiting = list(parameters[name].when)
    while waiting:
        each = waiting.pop()
        if each == wanted:
            return True
        if each not in seen:
            seen.add(each)
            waiting += parameters[each].when
    return False


def allowed(choices: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """The values of another parameter that a condition allows: one choice, or a list of them."""
    if text_of(value) in map(text_of, choices) or not isinstance(value, (list, tuple)):
        return (value,)
    return tuple(value)


def text_of(value: Any) -> str:
    """A value as JSON, so that 1, 1.0, true and "1" are four values."""
    return json.dumps(value, sort_keys=True)


def _error(source: str, problems: Any) -> ConfigError:
    ordered = sorted(problems, key=lambda each: (each.line is None, each.line or 0))
    return ConfigError("\n".join(dict.fromkeys(each.text(source) for each in ordered)))
