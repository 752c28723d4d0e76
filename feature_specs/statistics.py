"""The format of `statistics.json`, which holds the statistics of each feature of a data set.

`input_pipelines/prepare/analyze` writes the file. A spec may take the numbers of a normalizer or
the boundaries of a bucketized column from it. This module defines the version and the fields, and
reads the file. It never computes a statistic and does not import TensorFlow.

    statistics = load(pathlib.Path("statistics.json"))
    statistics.features["price"].numbers.mean
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Dtype, Entry, FiniteFloat, as_tuple
from feature_specs.errors import counted

VERSION = 1

# The file keeps the minimum, 99 percentiles and the maximum.
PERCENTILES = 100

Number = Union[int, FiniteFloat]
_Count = Annotated[int, Field(ge=0)]


class StatisticsError(ValueError):
    """A statistics file that cannot be used. The message names the file."""


class Lengths(Entry):
    """The number of values per record. A record without the feature has 0 values.

    Attributes:
      min, max, mean: of the lengths of all records.
      counts: the number of records by length. Lengths of 1024 and more are grouped by powers of
        two, named after the smallest: "2048" counts the lengths 2048 to 4095.
    """

    min: _Count
    max: _Count
    mean: FiniteFloat
    counts: dict[str, _Count]


class Cardinality(Entry):
    """The number of distinct values, exact or estimated to about 1% by a HyperLogLog sketch."""

    value: _Count
    exact: bool


class Numbers(Entry):
    """The distribution of all finite values of all records.

    Attributes:
      min, max, mean: of the finite values.
      stddev: the standard deviation of the finite values (divided by n, not by n - 1).
      zeros: the number of values that are 0.
      non_finite: the number of values that are NaN or infinite. They count nowhere else.
      quantiles: 101 numbers. The i-th is the smallest value that at least i% of the values do not
        exceed. The first is the minimum.
      quantiles_exact: whether the quantiles are exact. Otherwise a t-digest estimated them, with
        an error of up to about 0.2% of the rows.
    """

    min: Number
    max: Number
    mean: FiniteFloat
    stddev: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    zeros: _Count
    non_finite: _Count
    quantiles: Annotated[
        tuple[Number, ...],
        pydantic.BeforeValidator(as_tuple),
        Field(min_length=PERCENTILES + 1, max_length=PERCENTILES + 1),
    ]
    quantiles_exact: bool


def _pairs(value: Any) -> Any:
    return tuple(map(as_tuple, value)) if isinstance(value, (list, tuple)) else value


class Words(Entry):
    """The most frequent values of a string or int64 feature.

    Attributes:
      top: words and their counts, the most frequent first. Words with equal counts are sorted.
      exact: whether all counts are exact. Otherwise each count is a lower bound.
      largest_error: the largest amount by which a count may be too small.
      integers: whether every word is an integer, and so may be an id or a code.
      empty: how often the empty string occurs. It is not counted as a word.
      not_words: the number of values that are not UTF-8 text or are longer than 256 bytes.
    """

    top: Annotated[tuple[tuple[str, int], ...], pydantic.BeforeValidator(_pairs)]
    exact: bool
    largest_error: _Count
    integers: bool
    empty: _Count
    not_words: _Count


class FeatureStatistics(Entry):
    """The statistics of one feature.

    Attributes:
      dtype: the type of the values, or None if no record has a value.
      missing: the number of records without a value. In them the feature is absent or its list is
        empty.
      values: the number of values in all records.
      lengths: the number of values per record. For a feature list, the number of steps.
      cardinality: the number of distinct values.
      numbers: only for a float32 or int64 feature that has a finite value.
      words: only for string and int64 features.
      odd_steps: only for a feature list of SequenceExamples: the number of steps that do not have
        exactly one value.
    """

    dtype: Optional[Dtype]
    missing: _Count
    values: _Count
    lengths: Lengths
    cardinality: Cardinality
    numbers: Optional[Numbers] = None
    words: Optional[Words] = None
    odd_steps: Optional[_Count] = None


class Statistics(Entry):
    """The statistics of all features of a data set.

    Attributes:
      version: the version of this format.
      rows: the number of records that count: those that the filter keeps, if the spec has one.
      dropped: the number of records in the files that the filter drops.
      filter: the entries of that filter.
      files: the number of files.
      features: the statistics by feature name.
    """

    version: Literal[1] = 1
    rows: _Count
    dropped: _Count = 0
    filter: Annotated[tuple[dict[str, Any], ...], pydantic.BeforeValidator(as_tuple)] = ()
    files: _Count
    features: Mapping[str, FeatureStatistics]

    @property
    def population(self) -> str:
        """The number of records for people: those that count, and those in the files."""
        return population(self.rows, self.dropped, "record")

    def text(self) -> str:
        """The content of the file."""
        document = self.model_dump(mode="json")
        if not self.filter:
            del document["dropped"], document["filter"]
        for feature in document["features"].values():
            if feature["odd_steps"] is None:
                del feature["odd_steps"]
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def population(rows: int, dropped: int, what: str) -> str:
    """`190 of 1,000 records`, if a filter drops 810 records."""
    if not dropped:
        return counted(rows, what)
    return f"{rows:,} of {counted(rows + dropped, what)}"


def load(path: pathlib.Path) -> Statistics:
    """Reads a statistics file.

    Raises:
      StatisticsError: the file does not exist, is not JSON, or has another form or version.
    """
    try:
        document = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise StatisticsError(
            f"the file {str(path)!r} does not exist. Write it with run.py --mode=analyze, "
            "without --spec, into a new folder, and copy it."
        ) from None
    except OSError as error:
        raise StatisticsError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise StatisticsError(f"{str(path)!r} is not JSON: {error}") from error
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise StatisticsError(
            f"{str(path)!r} has the version {version!r}, expected {VERSION}. "
            "Write it again with run.py --mode=analyze."
        )
    try:
        return Statistics.model_validate(document)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise StatisticsError(
            f"{str(path)!r}: {place}: {first['msg']}. Write it again with run.py --mode=analyze."
        ) from error
