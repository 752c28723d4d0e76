"""The section `filter` of a spec: which rows are trained on and scored.

    filter:
      - {feature: country, in: [de, fr]}
      - {feature: age, min: 18}
      - {feature: source, not_in: [robot]}

A row has to pass all of them; of the others nothing is learned, and no metric counts them.
Prediction and serving answer for every row. A row without the feature has its default. Imports no
TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import LARGEST_FLOAT32, Entry, as_tuple
from feature_specs.errors import value_text

_Values = Annotated[
    tuple[Union[int, str], ...], pydantic.BeforeValidator(as_tuple), Field(min_length=1)
]


def _finite(value: Any) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"got {value!r}, expected a finite number")
    return value


# Integers stay integers: int64 values are compared as what they are.
_Number = Annotated[Union[int, float], pydantic.BeforeValidator(_finite)]


def _is_held(value: Union[int, float], dtype: str) -> bool:
    if dtype == "int64":
        return -(2**63) <= value < 2**63
    return abs(value) <= LARGEST_FLOAT32


class Filter(Entry):
    """One condition on one feature.

    Attributes:
      feature: the feature whose value decides; of one value a row.
      is_in: `in`: the words or integers that pass.
      not_in: those that do not.
      min, max: the smallest and the largest number that pass.
    """

    feature: str
    is_in: Annotated[Optional[_Values], Field(alias="in")] = None
    not_in: Optional[_Values] = None
    min: Optional[_Number] = None
    max: Optional[_Number] = None

    @property
    def words(self) -> dict[str, tuple[Union[int, str], ...]]:
        """`in` and `not_in`, where they are given."""
        given = {"in": self.is_in, "not_in": self.not_in}
        return {key: values for key, values in given.items() if values is not None}

    @property
    def bounds(self) -> dict[str, Union[int, float]]:
        """`min` and `max`, where they are given."""
        given = {"min": self.min, "max": self.max}
        return {key: bound for key, bound in given.items() if bound is not None}

    @pydantic.model_validator(mode="after")
    def _check(self) -> Filter:
        if not self.words and not self.bounds:
            raise ValueError("says nothing; give in, not_in, min or max")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}: no row would pass")
        return self

    def misfits(self, dtype: str) -> Iterator[tuple[str, str]]:
        """`(key, what is wrong)` of conditions that cannot be held against values of a dtype."""
        wanted: dict[str, Any] = {"string": str, "int64": int}
        for key, values in self.words.items():
            if dtype == "float32":
                yield key, f"feature {self.feature!r} is float32; give min and max"
            elif not all(isinstance(value, wanted[dtype]) for value in values):
                yield key, f"got {list(values)}, and feature {self.feature!r} is {dtype}"
            else:
                for value in values:
                    if isinstance(value, int) and not _is_held(value, dtype):
                        yield key, f"got {value_text(value)}, which no int64 holds"
        for key, bound in self.bounds.items():
            if dtype == "string":
                yield key, f"feature {self.feature!r} is a string; give in or not_in"
            elif dtype == "int64" and not isinstance(bound, int):
                yield key, f"got {bound}, and feature {self.feature!r} is int64: give an integer"
            elif not _is_held(bound, dtype):
                yield key, f"got {value_text(bound)}, which no {dtype} holds"
