"""The sections `filter`, `drift` and `tables` of a spec: which records, and how they are read.

    filter:                              # which rows the kit trains on and scores
      - {feature: country, in: [de, fr]}
      - {feature: age, min: 18}
      - {feature: source, not_in: [robot]}
    drift:                               # how much new data may differ from earlier data
      default:
        l_infinity:     {warn: 0.02, stop: 0.1}
        jensen_shannon: {warn: 0.02, stop: 0.1}
        missing:        {warn: 0.01, stop: 0.05}
      features:
        item_id: {l_infinity: {}}        # new items every day: no threshold for this measure
        note: {}                         # no threshold for any measure
      labels:
        click: {l_infinity: {warn: 0.005, stop: 0.02}}
    tables:                              # the format of the CSV files that records are made from
      csv_missing: ["?"]
      csv_skip_spaces: true

A row must pass all filters. Training and metrics ignore the other rows. Prediction and serving
answer for every row. If a row lacks the feature, the filter compares the feature's default.
`FeatureSpec.conditions` is all that decides, for every reader of rows.

A distance above `warn` is a warning, and a distance above `stop` is an error. `default` applies to
every feature that is not ignored and to every label. An entry under `features` or `labels` replaces
the default, measure by measure. `{}` removes the thresholds: of one measure if it is the value of a
measure, and of all measures if it is the value of a name. Without a threshold the kit checks
nothing. `input_pipelines.prepare.analyze.distances` computes the measures.

Each entry of `tables` has the name of a flag. `--mode=analyze` writes the flags that it was given,
and how it read fields, into this section. Conversion, validation and prediction of CSV files read
them from here, so that all of them interpret a field in the same way. The spec in an export
contains the section. It does not change the model, and it has no effect on other file formats. This
module does not import TensorFlow.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import LARGEST_FLOAT32, Declared, Entry, Words, as_tuple
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


def _fits(value: Union[int, float], dtype: str) -> bool:
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
        options = {"in": self.is_in, "not_in": self.not_in}
        return {key: values for key, values in options.items() if values is not None}

    @property
    def bounds(self) -> dict[str, Union[int, float]]:
        """`min` and `max`, if they are set."""
        options = {"min": self.min, "max": self.max}
        return {key: bound for key, bound in options.items() if bound is not None}

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
                    if isinstance(value, int) and not _fits(value, dtype):
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
            elif not _fits(bound, dtype):
                text = f"got {value_text(bound)}, which does not fit into {dtype}"
                yield key, f"{text}. Write a bound that {dtype} can hold, or remove it."


@dataclasses.dataclass(frozen=True)
class Condition:
    """One entry of the section `filter`, and what it needs of its feature."""

    filter: Filter
    dtype: str
    default: Optional[Union[int, float, str]]


_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Thresholds(Entry):
    """The thresholds of one measure, as distances from 0 to 1."""

    warn: Optional[_Share] = Field(
        None, description="A larger distance is a warning. By default no distance is a warning."
    )
    stop: Optional[_Share] = Field(
        None,
        description="A larger distance is an error. It must not be less than `warn`. By default "
        "no distance is an error.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Thresholds:
        if self.warn is not None and self.stop is not None and self.warn > self.stop:
            raise ValueError(
                f"warn must not be greater than stop, got warn {self.warn} and stop {self.stop}"
            )
        return self


class Measures(Entry):
    """The thresholds of each measure. For a feature or label, `{}` removes all thresholds."""

    l_infinity: Optional[Thresholds] = Field(
        None,
        description="For categories (strings, ids and classes): the largest change of the share of "
        "any value.",
    )
    jensen_shannon: Optional[Thresholds] = Field(
        None,
        description="For numbers: the Jensen-Shannon divergence. It is 0 for equal distributions "
        "and 1 if no value is common.",
    )
    missing: Optional[Thresholds] = Field(
        None, description="The change of the share of records without a value."
    )


class Drift(Declared):
    """How much new data may differ from earlier data."""

    changes = "limits"

    default: Measures = Field(
        Measures(),
        description="The thresholds of every feature that is not ignored, and of every label.",
    )
    features: Mapping[str, Measures] = Field(
        {},
        description="The thresholds of single features, by name. They replace the default, measure "
        "by measure. `{}` removes all thresholds of the feature.",
    )
    labels: Mapping[str, Measures] = Field(
        {},
        description="The thresholds of single labels, by name. They replace the default, measure "
        "by measure. `{}` removes all thresholds of the label.",
    )

    @property
    def any(self) -> bool:
        """Whether any threshold is set."""
        everything = (self.default, *self.features.values(), *self.labels.values())
        measures = [measure for entry in everything for measure in dict(entry).values() if measure]
        return any(measure != Thresholds() for measure in measures)


NO_DRIFT = Drift()


class TextOfValues(Declared):
    """How the text of one field is read. It must be the same in all files of a model."""

    changes = "records"

    csv_skip_spaces: Optional[bool] = Field(
        None,
        description="Whether to ignore spaces at the start of a field. The default is `false`, but "
        "a file in which every value of a column starts with a space is refused until this is set.",
    )
    csv_missing: Annotated[Optional[tuple[str, ...]], pydantic.BeforeValidator(as_tuple)] = Field(
        None,
        description="The fields that stand for missing values, in addition to empty fields.",
    )
    csv_list_separator: Optional[str] = Field(
        None,
        description="The text between the values of a list in one field, such as `|`. An empty "
        "text means that a field is one value.",
    )
    csv_thousands: Optional[bool] = Field(
        None,
        description="Whether commas separate the thousands of numbers, as in `69,487.00`. The "
        "default is `false`.",
    )


class Tables(TextOfValues):
    """The format of CSV files. The default of each entry is the default of the flag of its name.

    Its own entries say where the fields of one file are. They may differ between files.
    """

    csv_columns: Annotated[Optional[Words], pydantic.BeforeValidator(as_tuple)] = Field(
        None, description="The column names of files that do not start with a header line."
    )
    csv_delimiter: Optional[str] = Field(None, description="The character between two fields.")
    csv_comment: Optional[str] = Field(
        None, description="Lines that start with this text are ignored."
    )

    @property
    def given(self) -> dict[str, Any]:
        """The entries that are set, by name."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if value is not None}


NO_TABLES = Tables()
