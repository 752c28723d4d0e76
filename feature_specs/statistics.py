"""`statistics.json`: what analysis found in the records, feature by feature, as plain numbers.

`input_pipelines/prepare/analyze` writes it; a spec may take the numbers of a normalizer or the
boundaries
of a bucketized column from it, and people and programs may read it. This module is the format: its
version, its fields, and how it is read. Never computes a statistic; imports no TensorFlow.

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

VERSION = 1

# Quantiles that are kept: the minimum, 99 percentiles, the maximum.
PERCENTILES = 100

Number = Union[int, FiniteFloat]
_Count = Annotated[int, Field(ge=0)]


class StatisticsError(ValueError):
    """A statistics file that cannot be used; the message names it."""


class Lengths(Entry):
    """How many values a record has, over all records; a record without the feature has 0.

    Attributes:
      min, max, mean: over the records.
      counts: number of records by length. From 1024 on, lengths are put together by powers of two
        under the smallest of them: "2048" counts 2048 to 4095.
    """

    min: _Count
    max: _Count
    mean: FiniteFloat
    counts: dict[str, _Count]


class Cardinality(Entry):
    """The number of different values, exact or estimated to about 1% (a HyperLogLog sketch)."""

    value: _Count
    exact: bool


class Numbers(Entry):
    """A number's distribution, over all values of all records; NaN and infinity are left out.

    Attributes:
      min, max, mean: over the finite values.
      stddev: the standard deviation of these values (divided by n, not n - 1).
      zeros: how many are 0.
      non_finite: how many more are NaN or infinite.
      quantiles: 101 numbers, the i-th the smallest value that at least i% of the values do not
        exceed (the first is the minimum).
      quantiles_exact: whether they are exact; else they are off by up to about 0.2% of the rows
        (a t-digest).
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

    def cuts(self, buckets: int) -> list[float]:
        """Inner boundaries of `buckets` parts of equal weight, at whole percentiles, each once."""
        at = [round(PERCENTILES * i / buckets) for i in range(1, buckets)]
        return sorted({float(self.quantiles[i]) for i in at})


def _pairs(value: Any) -> Any:
    return tuple(map(as_tuple, value)) if isinstance(value, (list, tuple)) else value


class Words(Entry):
    """The most frequent values of a string or int64 feature.

    Attributes:
      top: words and how often each occurs, falling, ties by word.
      exact: whether all counts are exact; otherwise each is a lower bound.
      largest_error: a count may be too small by this, at most.
      integers: whether every word is an integer, so that it may be an id or a code.
      empty: how often the empty string occurs; it is no word.
      not_words: values that are no UTF-8 text or longer than 256 bytes.
    """

    top: Annotated[tuple[tuple[str, int], ...], pydantic.BeforeValidator(_pairs)]
    exact: bool
    largest_error: _Count
    integers: bool
    empty: _Count
    not_words: _Count


class FeatureStatistics(Entry):
    """One feature.

    Attributes:
      dtype: None when no record has a value of it.
      missing: records without a value, because the feature is absent or its list is empty.
      values: number of values, in all records together.
      lengths, cardinality: see there.
      numbers: for float32 and int64, when there is any finite value.
      words: for string and int64.
      odd_steps: for a feature list of SequenceExamples, how many of its steps have another number
        of values than one; None for a feature of the record. `lengths` are numbers of steps.
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
    """All features of the records that were read.

    Attributes:
      version: of this format.
      rows: number of records.
      files: number of files.
    """

    version: Literal[1] = 1
    rows: _Count
    files: _Count
    features: Mapping[str, FeatureStatistics]

    def text(self) -> str:
        """The file's content."""
        document = self.model_dump(mode="json")
        for feature in document["features"].values():
            if feature["odd_steps"] is None:
                del feature["odd_steps"]
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def load(path: pathlib.Path) -> Statistics:
    """The statistics in a file.

    Raises:
      StatisticsError: the file is missing, no JSON, or of another form or version.
    """
    try:
        document = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise StatisticsError(
            f"there is no file {str(path)!r}; run.py --mode=analyze writes it"
        ) from None
    except OSError as error:
        raise StatisticsError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise StatisticsError(f"{str(path)!r} is no JSON: {error}") from error
    version = document.get("version") if isinstance(document, dict) else None
    if version != VERSION:
        raise StatisticsError(
            f"{str(path)!r} has the version {version!r}, expected {VERSION}; "
            "write it again with run.py --mode=analyze"
        )
    try:
        return Statistics.model_validate(document)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise StatisticsError(
            f"{str(path)!r}: {place}: {first['msg']}; write it again with run.py --mode=analyze"
        ) from error
