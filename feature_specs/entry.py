"""The base of all entries of a spec, and the types that they share. Imports no TensorFlow."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import pydantic
from pydantic import Field

# A name becomes part of TensorFlow variable and signature names, which allow these characters.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$"
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127
Dtype = Literal["float32", "int64", "string"]
Scalar = Union[int, float, str]
PositiveInt = Annotated[int, Field(ge=1, le=2**62)]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Entry(pydantic.BaseModel):
    """Base of all entries: immutable, no unknown keys, no silent conversion between types."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, populate_by_name=False
    )


class Range(Entry):
    """Numbers from `min` to a larger `max`."""

    min: FiniteFloat
    max: FiniteFloat

    @pydantic.model_validator(mode="after")
    def _check(self) -> Range:
        if self.min >= self.max:
            raise ValueError(f"min {self.min} must be below max {self.max}")
        return self


def only_key(value: Any) -> str:
    """The one key of an entry that is written `{name: ...}`, by which its model is found."""
    if isinstance(value, Entry):
        return next(iter(value.model_dump()))
    one = isinstance(value, dict) and len(value) == 1
    return next(iter(value)) if one else "unknown"


def spelled_out(value: Any, name: str) -> Any:
    """`name`, which has no values, as the `{name: true}` of its model; anything else as it is."""
    if isinstance(value, dict) and list(value) == [name] and value[name] is not True:
        raise ValueError(f"got {value!r}, expected {name} alone, which has no values")
    return {name: True} if value == name else value


def as_tuple(value: Any) -> Any:
    """A list as a tuple; anything else as it is, for pydantic to refuse."""
    return tuple(value) if isinstance(value, list) else value


def _shape(value: Any) -> Any:
    """`variable`, `[]`, `[n]` or `[n, m, ...]`."""
    if value == "variable":
        return value
    if isinstance(value, (list, tuple)):
        if all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in value):
            return tuple(value)
    raise ValueError(
        f"got {value!r}, expected [] for one value, [n] or [n, m] for so many, or variable"
    )


# Of features and labels: of one value, of so many, or of a list.
Shape = Annotated[Union[Literal["variable"], tuple[int, ...]], pydantic.BeforeValidator(_shape)]

# Tuples that a YAML list fills.
Words = Annotated[tuple[str, ...], pydantic.BeforeValidator(as_tuple), Field(min_length=1)]
Integers = Annotated[tuple[int, ...], pydantic.BeforeValidator(as_tuple), Field(min_length=1)]
