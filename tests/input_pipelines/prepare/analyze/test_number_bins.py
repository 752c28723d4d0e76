"""The names of bins show integers with all of their digits."""

from __future__ import annotations

import pytest

from feature_specs.statistics import Numbers
from input_pipelines.prepare.analyze.number_bins import common_bins
from input_pipelines.prepare.analyze.numbers import with_commas

pytestmark = pytest.mark.no_tensorflow


def numbers(quantiles):
    return Numbers(
        min=quantiles[0], max=quantiles[-1], mean=0.0, stddev=1.0, zeros=0, non_finite=0,
        quantiles=tuple(quantiles), quantiles_exact=True,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [int, float])
def test_names(kind):
    # Each number is 1% of the values, so a tenth of them is between two ends.
    spread = numbers([kind(20_260_101 + i) for i in range(101)])
    names = [found.name for found in common_bins(spread, spread, values=1000)]
    assert names[:2] == ["up to 20260111", "over 20260111 to 20260121"]
    assert names[-1] == "over 20260191"


def test_numbers_in_comments():
    assert [with_commas(value) for value in (2**60, 16777217.0, 1234567.25, 1e30, 0.5)] == [
        "1,152,921,504,606,846,976", "16,777,217", "1.23457e+06", "1e+30", "0.5",
    ]  # fmt: skip
