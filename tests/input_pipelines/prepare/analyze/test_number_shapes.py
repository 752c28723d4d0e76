"""number_shapes: buckets if most values are equal, and long tails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from feature_specs.statistics import Numbers
from input_pipelines.prepare.analyze import number_shapes
from input_pipelines.prepare.analyze.numbers import exact_quantiles

pytestmark = pytest.mark.no_tensorflow


def numbers_of(counts):
    values = np.repeat(np.array(list(counts), np.float64), list(counts.values()))
    return Numbers(
        min=min(counts), max=max(counts), mean=float(values.mean()), stddev=float(values.std()),
        zeros=counts.get(0, 0), non_finite=0, quantiles=exact_quantiles(counts),
        quantiles_exact=True,
    )  # fmt: skip


def boundaries(counts, known=True):
    numbers = numbers_of(counts)
    rest = number_shapes.rest_of(numbers, counts if known else None)
    cut, why = number_shapes.buckets(numbers, rest, 10, "statistics.json")
    return cut.get("boundaries"), why


def test_most_values_are_zero():
    # 950 zeros and 10 to 500 by tens, once each: tenths of the fifty are 50, 100, ... 450.
    counts = {0: 950, **{10 * i: 1 for i in range(1, 51)}}
    cuts, why = boundaries(counts)
    # 0 is below 10; the tenths of the rest follow.
    assert cuts == [10, 50, 100, 150, 200, 250, 300, 350, 400, 450]
    assert why == (
        "95% of the values are 0, which gets a separate bucket; the rest is cut into 10 of about "
        "equal weight; a linear model learns a weight for each"
    )
    # Percentiles alone do not show whether a value is between 0 and 10: 1 is certainly above 0.
    # The 96th to 99th percentiles are 100, 200, 300 and 400.
    assert boundaries(counts, known=False)[0] == [1, 100, 200, 300, 400]


def test_most_values_are_in_the_middle():
    # -2 and -1 are below 3, and 7.5 is above: two of these three values are below.
    cuts, why = boundaries({-2.0: 1, -1.0: 1, 3.0: 9, 7.5: 1})
    assert cuts == [-1, 3, 7.5]
    assert why.startswith("75% of the values are 3, which gets a separate bucket; the rest is ")


def test_others_that_no_percentile_shows():
    counts = {0.0: 9999, 2.5: 1}
    assert boundaries(counts)[0] == [2.5]
    tiny = float(np.finfo(np.float32).tiny)
    assert boundaries(counts, known=False)[0] == [tiny]
    assert boundaries({1.0: 9999, 2.5: 1}, known=False)[0] == [
        float(np.nextafter(np.float32(1), np.float32(2)))
    ]


def test_half_is_not_most():
    counts = {0: 50, **dict.fromkeys(range(1, 51), 1)}
    assert number_shapes.rest_of(numbers_of(counts), counts) is None
    assert number_shapes.rest_of(numbers_of(counts), None) is None
    cuts, why = boundaries(counts)
    # No value is below 0, so the first boundary is above it.
    assert cuts == [1, 10, 20, 30, 40] and "equal ones merged" in why


@pytest.mark.parametrize(
    "counts, expected",
    [
        (dict.fromkeys(range(53), 1), False),
        # Weeks of a year at work: none, all, and some between.
        ({0: 48, **dict.fromkeys(range(1, 52), 1), 52: 40}, False),
        ({0: 900, **dict.fromkeys(range(1, 53), 1)}, False),
        ({0: 900, **{round(math.exp(i / 9)): 1 for i in range(100)}}, True),
        ({round(1000 * -math.log(1 - i / 1000)): 1 for i in range(1000)}, True),
        ({-5: 1, **{round(1000 * -math.log(1 - i / 1000)): 1 for i in range(1000)}}, False),
    ],
    ids=["uniform", "weeks", "mostly 0, uniform", "mostly 0, a tail", "exponential", "below 0"],
)
def test_a_long_tail(counts, expected):
    numbers = numbers_of(counts)
    rest = number_shapes.rest_of(numbers, counts)
    assert number_shapes.long_tail(numbers, rest) is expected


def test_skewness():
    assert number_shapes.skewness(range(53)) == 0 and number_shapes.skewness([3, 3]) == 0
    # 0, 0, 3: mean 1, deviations -1, -1, 2; (-1 - 1 + 8) / 3 over (6 / 3) ** 1.5.
    assert number_shapes.skewness([0, 0, 3]) == pytest.approx(2 / 2**1.5)
