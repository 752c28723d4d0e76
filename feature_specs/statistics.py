"""The format of `statistics.json`, which holds the statistics of each feature of a data set.

`input_pipelines/prepare/analyze` writes the file. A spec may take the numbers of a normalizer or
the boundaries of a bucketized column from it. This module defines the version and the fields, and
reads the file. It never computes a statistic and does not import TensorFlow.

    statistics = load(pathlib.Path("statistics.json"))
    statistics.features["price"].numbers.mean
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Annotated, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Dtype, FiniteFloat
from feature_specs.errors import ConfigError, counted
from feature_specs.files import documents

# The file keeps the minimum, 99 percentiles and the maximum.
PERCENTILES = 100

Number = Union[int, FiniteFloat]
_Count = Annotated[int, Field(ge=0)]


class StatisticsError(ValueError):
    """A statistics file that cannot be used. The message names the file."""


class Lengths(documents.Part):
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


class Cardinality(documents.Part):
    """The number of distinct values, exact or estimated to about 1% by a HyperLogLog sketch."""

    value: _Count
    exact: bool


class Numbers(documents.Part):
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
        Field(min_length=PERCENTILES + 1, max_length=PERCENTILES + 1),
    ]
    quantiles_exact: bool


class Words(documents.Part):
    """The most frequent values of a string or int64 feature.

    Attributes:
      top: words and their counts, the most frequent first. Words with equal counts are sorted.
      exact: whether all counts are exact. Otherwise each count is a lower bound.
      largest_error: the largest amount by which a count may be too small.
      integers: whether every word is an integer, and so may be an id or a code.
      empty: how often the empty string occurs. It is not counted as a word.
      not_words: the number of values that are not UTF-8 text or are longer than 256 bytes.
    """

    top: tuple[tuple[str, int], ...]
    exact: bool
    largest_error: _Count
    integers: bool
    empty: _Count
    not_words: _Count


class FeatureStatistics(documents.Part):
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


class Statistics(documents.Document):
    """The statistics of all features of a data set.

    Attributes:
      version: the version of this format.
      rows: the number of records that count: those that the filter keeps, if the spec has one.
      dropped: the number of records in the files that the filter drops.
      filter: the entries of that filter.
      files: the number of files.
      features: the statistics by feature name.
    """

    sort_keys = False
    indent = 1
    ascii = False

    version: Literal[1] = 1
    rows: _Count
    dropped: _Count = 0
    filter: tuple[dict[str, pydantic.JsonValue], ...] = ()
    files: _Count
    features: Mapping[str, FeatureStatistics]

    @property
    def population(self) -> str:
        """The number of records for people: those that count, and those in the files."""
        return population(self.rows, self.dropped, "record")


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
        statistics = Statistics.load(str(path))
    except (ConfigError, OSError) as error:
        raise StatisticsError(f"{error} Write it again with run.py --mode=analyze.") from error
    if statistics is None:
        raise StatisticsError(
            f"the file {str(path)!r} does not exist. Write it with run.py --mode=analyze, "
            "without --spec, into a new folder, and copy it."
        )
    return statistics
