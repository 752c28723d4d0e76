"""Bounds, compared with NumPy's neighbors of each number, and boundaries from quantiles."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from feature_specs.kinds import bounds
from feature_specs.kinds.bounds import cuts
from input_pipelines.prepare.analyze.numbers import exact_quantiles

pytestmark = pytest.mark.no_tensorflow

KINDS = {"float32": np.float32, "float64": np.float64}
NEAR = [1, 3, 2**24, 2**31, 2**53, 2**62]
BOUNDS = [
    *(sign * (near + offset) for sign in (1, -1) for near in NEAR for offset in range(-3, 4)),
    *(sign * (near + 0.25) for sign in (1, -1) for near in NEAR),
    16777217.0, 1000000.01, 0.123456789, 1e-50, -1e-50, 1e39, -1e39, 0.0, -0.0,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow encountered in nextafter")
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("bound", BOUNDS)
def test_the_first_number_on_each_side_of_a_bound(bound, dtype):
    kind = KINDS[dtype]
    found = bounds.at_least(bound, dtype)
    assert math.isinf(found) or found == kind(found)
    assert found >= Fraction(bound) > float(np.nextafter(kind(found), kind(-math.inf)))
    found = bounds.at_most(bound, dtype)
    assert float(np.nextafter(kind(found), kind(math.inf))) > Fraction(bound) >= found
    equal = bounds.equal_to(bound, dtype)
    assert equal is None if bounds.at_least(bound, dtype) != found else equal == found


@pytest.mark.parametrize("text", ["0.1", "0.7", "-0.3", "1e-3", "99.99", "3.4028e+38", "1.5e-42"])
def test_a_decimal_fraction_stands_for_the_float32_that_is_printed_like_it(text):
    stored = float(np.float32(text))
    for function in (bounds.at_least, bounds.at_most, bounds.equal_to):
        assert function(float(text), "float32") == stored
        assert function(float(text), "float64") == float(text)


def test_integers_are_compared_with_integers():
    assert [bounds.at_least(bound, "int64") for bound in (2.5, -2.5, 2**53 + 1)] == [
        3, -2, 2**53 + 1
    ]  # fmt: skip
    assert [bounds.at_most(bound, "int64") for bound in (2.5, -2.5, 2**53 + 1)] == [
        2, -3, 2**53 + 1
    ]  # fmt: skip
    assert [bounds.equal_to(bound, "int64") for bound in (2.5, 3.0, 2**62 + 1)] == [
        None, 3, 2**62 + 1
    ]  # fmt: skip


TINY = float(np.finfo(np.float32).tiny)


def shares(values, limits):
    """The share of the values in each bucket."""
    places = np.searchsorted(limits, values, side="right")
    return np.bincount(places, minlength=len(limits) + 1) / len(values)


@pytest.mark.parametrize(
    "counts, buckets, expected",
    [
        ({0.0: 19, 1.0: 1}, 10, [1.0]),  # Mostly the minimum.
        ({0: 19, 7: 1}, 10, [7]),
        ({0.0: 999, 3.0: 1}, 10, [TINY]),  # No percentile shows the rest.
        ({0: 900, **dict.fromkeys(range(5, 105), 1)}, 10, [1]),
        ({0.0: 1, 1.0: 19}, 10, [1.0]),  # Mostly the maximum.
        ({0: 1, 5: 18, 9: 1}, 10, [5, 9]),  # Mostly in the middle.
        ({1.5: 999, 2.0: 1}, 10, [float(np.nextafter(np.float32(1.5), np.float32(2)))]),
        ({2**60: 19, 2**60 + 1: 1}, 10, [2**60 + 1]),
        (dict.fromkeys(range(100), 1), 4, [24, 49, 74]),
        ({0: 50, **dict.fromkeys(range(1, 51), 1)}, 4, [1, 25]),
    ],
)
def test_cuts_by_hand(counts, buckets, expected):
    assert cuts(exact_quantiles(counts), buckets) == expected


@pytest.mark.parametrize("seed", range(60))
def test_no_bucket_is_empty_and_large_buckets_have_one_value(seed):
    rng = random.Random(seed)
    kind = rng.choice([int, float])
    values = {kind(rng.randint(-50, 50)) for _ in range(rng.randint(2, 60))} | {kind(99)}
    counts = {v: rng.choice([1, 1, 2, 5, 100, 1000]) for v in values}
    buckets = rng.choice([2, 4, 10, 100])
    limits = cuts(exact_quantiles(counts), buckets)
    rows = np.repeat(np.array(list(counts), np.float64), list(counts.values()))
    found = shares(rows, limits)
    assert limits == sorted(set(limits)) and 1 <= len(limits) < buckets
    assert (found > 0).all()
    ends = [-math.inf, *limits, math.inf]
    for low, high, share in zip(ends, ends[1:], found):
        inside = {v: n / len(rows) for v, n in counts.items() if low <= v < high}
        # Without its most frequent value, a bucket has at most two parts, and 2 percentiles.
        assert share - max(inside.values()) <= 2 / buckets + 0.02, (low, high, inside)
