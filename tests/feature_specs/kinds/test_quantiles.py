"""Boundaries from quantiles: no bucket is empty, and a frequent value does not hide the rest."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from feature_specs.kinds.bounds import cuts
from input_pipelines.prepare.analyze.numbers import exact_quantiles

pytestmark = pytest.mark.no_tensorflow

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
