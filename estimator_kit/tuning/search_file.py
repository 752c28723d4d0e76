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

import pathlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Optional

import pydantic
from pydantic import Field

from estimator_kit.config.areas.exports import better
from estimator_kit.errors import ConfigError
from estimator_kit.tuning.parameter import Parameter, allowed, text_of, value_problem
from feature_specs.entry import Entry, PositiveFloat, PositiveInt, as_tuple
from feature_specs.errors import Path, Problem, SpecError, did_you_mean, located, value_text
from feature_specs.parser.sections import entry_at, message_of, place_in
from feature_specs.parser.yaml_reader import LONGEST, Lines, read_text, too_long


class Search(Entry):
    """A search.

    Attributes:
      parameters: what is searched: flags, and parameters of the model.
      metric: the metric that judges a trial by its best evaluation, such as `auc/click` or `loss`.
      direction: whether a better metric is lower (min) or higher (max). Every metric except a loss
        needs it.
      trials: how many trials the search makes.
      seconds: no trial begins when the trials have taken this long together. Two trials at the
        same time count twice.
      patience: no trial begins when the last trials, as many as this, have all ended without a
        better value.
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
    patience: Optional[PositiveInt] = None
    first: Annotated[tuple[dict[str, Any], ...], pydantic.BeforeValidator(as_tuple)] = ()
    sampler: Literal["tpe", "random"] = "tpe"
    seed: int = 1
    pruner: Literal["median", "hyperband", "none"] = "median"

    _source: str = pydantic.PrivateAttr("<dict>")
    _lines: Lines = pydantic.PrivateAttr(default_factory=dict)
    _budget: Optional[float] = pydantic.PrivateAttr(None)

    @property
    def budget(self) -> Optional[float]:
        """The seconds after which a search of `auto` ends, on the clock; None for a file."""
        return self._budget

    @property
    def maximizes(self) -> bool:
        return self.direction == "max"

    def lasting(self, seconds: float) -> Search:
        """The same search, which ends after these seconds on the clock."""
        self._budget = seconds
        return self

    @property
    def watched(self) -> str:
        """The metric as flags name it: with its direction, if the kit does not know it."""
        if better(self.metric) == (self.direction or "min"):
            return self.metric
        return f"{self.direction or 'min'}:{self.metric}"

    def best_of(self, values: Iterable[float]) -> float:
        """The best one of some values of the metric."""
        return max(values) if self.maximizes else min(values)

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
    if document is None:
        raise ConfigError(
            f"{path}: the file is empty. Write `parameters`, `metric` and `trials` into it."
        )
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
    problems: list[tuple[Path, str]] = []
    if search.trials is None and search.seconds is None and search.patience is None:
        names = "`trials`, `seconds` and `patience`"
        problems.append(((), f"{names} are missing. Give at least one of them."))
    if search.direction is None and search.metric.partition("/")[0] != "loss":
        problems.append(
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
                problems.append((path, message))
    for i, entry in enumerate(search.first):
        for name, value in entry.items():
            problem = _first_problem(search.parameters, entry, name, value)
            if problem is not None:
                problems.append((("first", i, name), problem))
    if not problems:
        problems += [
            (("parameters", name, "when"), "the conditions go round in a circle. Remove one.")
            for name in search.parameters
            if _depends_on(search.parameters, name, name)
        ]
    return problems


def _first_problem(
    parameters: Mapping[str, Parameter], entry: Mapping[str, Any], name: str, value: Any
) -> Optional[str]:
    if name not in parameters:
        return f"got {name!r}, expected a parameter of the search{did_you_mean(name, parameters)}"
    for other, wanted in parameters[name].when.items():
        choices = parameters[other].choice if other in parameters else None
        if choices is None or other not in entry:
            continue
        if text_of(entry[other]) not in map(text_of, allowed(choices, wanted)):
            return (
                f"got {value_text(value)}, but the trial has no {name!r}, because {other!r} is "
                f"{value_text(entry[other])}. Remove the value, or change {other!r}."
            )
    return value_problem(parameters[name], value)


def _condition_problem(
    parameters: Mapping[str, Parameter], name: str, other: str, value: Any
) -> Optional[str]:
    if other not in parameters:
        others = [each for each in parameters if each != name]
        return (
            f"got {other!r}, expected another parameter of the search{did_you_mean(other, others)}"
        )
    choices = parameters[other].choice
    if choices is None:
        return f"{other!r} is a range, and a condition needs a parameter with `choice`"
    if not set(map(text_of, allowed(choices, value))) <= set(map(text_of, choices)):
        return f"got {value_text(value)}, expected one or several of {list(choices)}"
    return None


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


def _error(source: str, problems: Any) -> ConfigError:
    ordered = sorted(problems, key=lambda each: (each.line is None, each.line or 0))
    return ConfigError("\n".join(dict.fromkeys(each.text(source) for each in ordered)))
