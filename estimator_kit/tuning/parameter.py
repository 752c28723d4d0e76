"""One parameter of a search: a range of numbers or a list of choices, and its conditions.

Imports neither TensorFlow nor Optuna.
"""

from __future__ import annotations

import decimal
import json
import math
from typing import Annotated, Any, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry
from feature_specs.errors import value_text

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
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(f"got {value_text(value)}, expected a list of values")
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
      choice: the values, of any form that the flag or the parameter of the model takes: two or
        more, or one that `when` sets.
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
            for name, is_set in (("log", self.log), ("int", self.whole), ("step", self.step)):
                if is_set:
                    raise ValueError(f"`{name}` is for a `range`, not for a `choice`. Remove it.")
            if len(self.choice) == 1 and not self.when:
                raise ValueError(
                    f"got one choice, {value_text(self.choice[0])}, expected two or more. Add "
                    "another, or set the value in the flags."
                )
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


def value_problem(parameter: Parameter, value: Any) -> Optional[str]:
    """Why a parameter cannot have a value, or None."""
    if parameter.choice is not None:
        if text_of(value) in map(text_of, parameter.choice):
            return None
        return f"got {value_text(value)}, expected one of {list(parameter.choice)}"
    low, high = parameter.span
    is_int = type(value) is int or not parameter.whole
    if not (_is_number(value) and low <= value <= high and is_int):
        kind = "a whole number" if parameter.whole else "a number"
        return f"got {value_text(value)}, expected {kind} from {low} to {high}"
    if parameter.step is not None and _rest(value, low, parameter.step):
        return f"got {value}, expected {low} or a number of steps of {parameter.step} above it"
    return None


def _rest(value: Number, low: Number, step: Number) -> decimal.Decimal:
    """What is left of the way from `low` to `value` after whole steps; exact for tenths."""
    return (decimal.Decimal(str(value)) - decimal.Decimal(str(low))) % decimal.Decimal(str(step))


def on_step(value: float, low: Number, step: Number) -> float:
    """The number of steps above `low` that a float means: 0.3 for 0.30000000000000004."""
    start, distance = decimal.Decimal(str(low)), decimal.Decimal(str(step))
    return float(start + round((decimal.Decimal(value) - start) / distance) * distance)


def allowed(choices: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """The values of another parameter that a condition allows: one choice, or a list of them."""
    if text_of(value) in map(text_of, choices) or not isinstance(value, (list, tuple)):
        return (value,)
    return tuple(value)


def text_of(value: Any) -> str:
    """A value as JSON, so that 1, 1.0, true and "1" are four values."""
    return json.dumps(value, sort_keys=True)
