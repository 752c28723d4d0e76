"""The base of all entries of a spec, and the types that they share. No TensorFlow import."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, ClassVar, Literal, Union

import pydantic
from pydantic import Field

from feature_specs import meaning

# Names become part of the names of TensorFlow variables and signatures, which allow only these
# characters.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$"
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127
Dtype = Literal["float32", "int64", "string"]
Scalar = Union[int, float, str]
PositiveInt = Annotated[int, Field(ge=1, le=2**62)]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _exact(value: Any, check: Any) -> Any:
    """An integer that a float cannot hold, such as 2**53 + 1, stays an integer; see `_holds`."""
    return value if type(value) is int and not _holds(value) else check(value)


def _holds(value: int) -> bool:
    """Whether a float can hold an integer, or not even its magnitude."""
    try:
        return float(value) == value
    except OverflowError:
        return True  # pydantic refuses it.


def _unchanged(value: Any) -> Any:
    return value


# A finite float, or an integer with more digits than a float can hold.
ExactNumber = Annotated[
    float,
    Field(allow_inf_nan=False),
    pydantic.WrapValidator(_exact),
    pydantic.PlainSerializer(_unchanged, return_type=Any),
]


class Entry(pydantic.BaseModel):
    """Base of all entries: frozen, without unknown keys or silent type conversions."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, populate_by_name=False
    )


def field(default: Any = ..., *, changes: str, named: bool = False, **details: Any) -> Any:
    """A field of an entry that says what it changes.

    Args:
      default: its default. Without one, the field is required.
      changes: the aspects that it changes, or `nothing`; see `feature_specs.meaning`.
      named: whether it only points at what counts, as a path does.
      **details: more arguments of `pydantic.Field`.
    """
    field_info: Any = Field(default, **details)
    field_info.metadata.append(meaning.changes(changes, named=named))
    return field_info


class Declared(Entry):
    """An entry whose fields all say what they change. A field speaks for the entries inside it.

    Attributes:
      changes: what the fields change that `field` does not declare.
    """

    changes: ClassVar[str] = ""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if not inspect.isabstract(cls):
            for name in cls.model_fields:
                cls.changes_of(name)

    @classmethod
    def changes_of(cls, name: str) -> meaning.Changes:
        """What one of its fields changes."""
        declared = meaning.of_field(cls.model_fields[name])
        if declared is None and not cls.changes:
            raise TypeError(
                f"{cls.__name__}.{name} does not say what it changes. Declare it with `field(..., "
                "changes=...)`, or set `changes` of the class for all its fields."
            )
        return declared or meaning.changes(cls.changes)

    def counted(self, wanted: frozenset[str]) -> dict[str, Any]:
        """The values, with defaults, that change a wanted aspect, by their names in the YAML.

        What a field names is not among them, such as the words of a file.
        """
        values = self.model_dump(mode="json", by_alias=True)
        result = {}
        for name, info in type(self).model_fields.items():
            declared = self.changes_of(name)
            if declared.aspects & wanted and not declared.named:
                key = info.alias or name
                result[key] = values[key]
        return result


class Range(Entry):
    """The numbers from `min` to `max`."""

    min: ExactNumber = Field(description="The smallest number.")
    max: ExactNumber = Field(description="The largest number. It must be larger than `min`.")

    @pydantic.model_validator(mode="after")
    def _check(self) -> Range:
        if self.min >= self.max:
            raise ValueError(f"min must be less than max, got min {self.min} and max {self.max}")
        return self


def only_key(value: Any) -> str:
    """The only key of an entry of the form `{name: ...}`. It selects the model of the entry."""
    if isinstance(value, Entry):
        return next(iter(value.model_dump()))
    one = isinstance(value, dict) and len(value) == 1
    return next(iter(value)) if one else "unknown"


def spelled_out(value: Any, name: str) -> Any:
    """Returns `{name: true}` for the string `name`. Returns any other value unchanged."""
    if isinstance(value, dict) and list(value) == [name] and value[name] is not True:
        raise ValueError(f"got {value!r}, expected the word {name} without values")
    return {name: True} if value == name else value


def as_tuple(value: Any) -> Any:
    """Returns a list as a tuple. Returns any other value unchanged, for pydantic to reject."""
    return tuple(value) if isinstance(value, list) else value


def _shape(value: Any) -> Any:
    """`variable`, `[]`, `[n]` or `[n, m, ...]`."""
    if value == "variable":
        return value
    if isinstance(value, (list, tuple)):
        if all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in value):
            return tuple(value)
    raise ValueError(
        f"got {value!r}, expected [] for one value, [n] or [n, m] for a fixed number, or variable"
    )


# The shape of a feature or label: one value, a fixed number of values, or a list.
Shape = Annotated[Union[Literal["variable"], tuple[int, ...]], pydantic.BeforeValidator(_shape)]

# A YAML list becomes a tuple.
Words = Annotated[tuple[str, ...], pydantic.BeforeValidator(as_tuple), Field(min_length=1)]
Integers = Annotated[tuple[int, ...], pydantic.BeforeValidator(as_tuple), Field(min_length=1)]
