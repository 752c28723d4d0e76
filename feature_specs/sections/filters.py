"""The section `filter` of a spec: which rows the kit trains on and scores.

    filter:
      - {feature: country, in: [de, fr]}
      - {feature: age, min: 18}
      - {feature: source, not_in: [robot]}

A row must pass all filters. Training and metrics ignore the other rows. Prediction and serving
answer for every row. If a row lacks the feature, the filter compares the feature's default.
`FeatureSpec.conditions` is all that decides, for every reader of rows. This module does not import
TensorFlow.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Annotated, Any, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import LARGEST_FLOAT32, Declared, as_tuple
from feature_specs.errors import value_text


def _sorted(values: tuple[Union[int, str], ...]) -> tuple[Union[int, str], ...]:
    return tuple(sorted({*values}, key=lambda value: (isinstance(value, str), value)))


# A set: its order and repeated values mean nothing, so they are not kept.
_Values = Annotated[
    tuple[Union[int, str], ...],
    pydantic.BeforeValidator(as_tuple),
    Field(min_length=1),
    pydantic.AfterValidator(_sorted),
]


def _finite(value: Any) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"got {value!r}, expected a finite number")
    return value


# Integers stay integers, so that large int64 values are compared exactly.
_Number = Annotated[Union[int, float], pydantic.BeforeValidator(_finite)]


def _is_held(value: Union[int, float], dtype: str) -> bool:
    if dtype == "int64":
        return -(2**63) <= value < 2**63
    return abs(value) <= LARGEST_FLOAT32


class Filter(Declared):
    """One condition on one feature. A row passes if it meets all keys of the condition."""

    changes = "rows scores"

    feature: str = Field(description="The name of a feature with one value per row.")
    is_in: Annotated[Optional[_Values], Field(alias="in")] = Field(
        None, description="The words or integers that pass."
    )
    not_in: Optional[_Values] = Field(None, description="The words or integers that do not pass.")
    min: Optional[_Number] = Field(None, description="The smallest number that passes.")
    max: Optional[_Number] = Field(None, description="The largest number that passes.")

    def as_dict(self) -> dict[str, Any]:
        """The entry as the YAML has it."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @property
    def words(self) -> dict[str, tuple[Union[int, str], ...]]:
        """`in` and `not_in`, if they are set."""
        given = {"in": self.is_in, "not_in": self.not_in}
        return {key: values for key, values in given.items() if values is not None}

    @property
    def bounds(self) -> dict[str, Union[int, float]]:
        """`min` and `max`, if they are set."""
        given = {"min": self.min, "max": self.max}
        return {key: bound for key, bound in given.items() if bound is not None}

    @pydantic.model_validator(mode="after")
    def _check(self) -> Filter:
        if not self.words and not self.bounds:
            raise ValueError("has no condition. Set in, not_in, min or max.")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(
                f"min must not be greater than max, got min {self.min} and max {self.max}. No row "
                "would pass."
            )
        return self

    def misfits(self, dtype: str) -> Iterator[tuple[str, str]]:
        """Yields `(key, what is wrong)` for each condition that does not fit a dtype."""
        wanted: dict[str, Any] = {"string": str, "int64": int}
        for key, values in self.words.items():
            if dtype == "float32":
                yield key, f"feature {self.feature!r} is float32. Use min and max instead."
            elif not all(isinstance(value, wanted[dtype]) for value in values):
                yield key, f"got {list(values)}, but feature {self.feature!r} is {dtype}"
            else:
                for value in values:
                    if isinstance(value, int) and not _is_held(value, dtype):
                        text = f"got {value_text(value)}, which does not fit into an int64"
                        yield key, f"{text}. Remove it: no value can be equal to it."
        for key, bound in self.bounds.items():
            if dtype == "string":
                yield key, f"feature {self.feature!r} is a string. Use in or not_in instead."
            elif dtype == "int64" and not isinstance(bound, int):
                yield (
                    key,
                    f"got {bound}, expected an integer, because feature {self.feature!r} is int64",
                )
            elif not _is_held(bound, dtype):
                text = f"got {value_text(bound)}, which does not fit into {dtype}"
                yield key, f"{text}. Write a bound that {dtype} can hold, or remove it."


@dataclasses.dataclass(frozen=True)
class Condition:
    """One entry of the section `filter`, and what it needs of its feature."""

    filter: Filter
    dtype: str
    default: Optional[Union[int, float, str]]
