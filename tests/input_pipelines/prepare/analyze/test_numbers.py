"""numbers: the same moments as NumPy, in any order of merging, and quantiles."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from input_pipelines.prepare.analyze.numbers import NumberSummary, exact_quantiles

pytestmark = pytest.mark.no_tensorflow


def summary_of(*parts):
    summary = NumberSummary()
    for part in parts:
        summary.add(part)
    return summary


def test_by_hand():
    found = summary_of(np.array([1, 2], np.int64), np.array([3, 6, 0], np.int64)).result(
        {1: 1, 2: 1, 3: 1, 6: 1, 0: 1}
    )
    # Mean 12/5; squares 1 + 4 + 9 + 36 = 50, so the variance is 10 - 5.76 = 4.24.
    assert (found.min, found.max, found.mean, found.zeros) == (0, 6, 2.4, 1)
    assert found.stddev == pytest.approx(4.24**0.5, rel=1e-15)
    assert found.quantiles[::25] == (0, 1, 2, 3, 6) and found.quantiles_exact


@pytest.mark.parametrize("shift, scale", [(0, 1), (1e9, 1), (-3e7, 1e-2), (0, 1e30)])
def test_moments_are_numpys(shift, scale):
    rng = np.random.default_rng(4)
    values = rng.normal(shift, scale, 30_000)
    found = summary_of(*np.array_split(values, 7)).result(None)
    assert found.mean == pytest.approx(values.mean(), rel=1e-12, abs=1e-12 * scale)
    assert found.stddev == pytest.approx(values.std(), rel=1e-9)
    assert (found.min, found.max) == (values.min(), values.max())


def test_large_integers_keep_their_range():
    values = np.array([2**63 - 1, -(2**63)], np.int64)
    found = summary_of(values).result(None)
    assert (found.min, found.max) == (-(2**63), 2**63 - 1)


def test_moments_of_integers_are_exact():
    """Compared with Python's fractions."""
    rng = random.Random(8)
    for base in (0, 2**60, -(2**62)):
        values = [base + rng.randrange(1000) for _ in range(3000)]
        found = summary_of(*np.array_split(np.array(values, np.int64), 4)).result(None)
        mean = Fraction(sum(values), len(values))
        variance = sum((value - mean) ** 2 for value in values) / len(values)
        assert found.mean == float(mean)
        assert found.stddev == pytest.approx(math.sqrt(variance), rel=1e-12)
    # One of four is 2^64 away: the mean is 2^63 - 2^62, and the variance 3/16 of 2^128.
    found = summary_of(np.array([2**63 - 1] * 3 + [-(2**63)], np.int64)).result(None)
    assert found.mean == 2.0**62 and found.stddev == pytest.approx(2.0**64 * (3 / 16) ** 0.5)
    assert summary_of(np.full(5, 2**63 - 1, np.int64)).result(None).stddev == 0


def test_values_that_are_not_finite_are_counted_separately():
    summary = NumberSummary()
    kept = summary.add(np.array([1, np.nan, np.inf, 3, -np.inf], np.float32))
    assert kept.tolist() == [1, 3]
    found = summary.result(None)
    assert (found.non_finite, found.mean, found.stddev) == (3, 2.0, 1.0)
    nothing = summary_of(np.array([np.nan], np.float32))
    assert nothing.result(None) is None and nothing.non_finite == 1


def test_merging_in_any_order_gives_the_same():
    rng = np.random.default_rng(5)
    parts = [rng.lognormal(3, 2, size).astype(np.float32) for size in (100, 7, 1, 333)]
    parts.append(np.zeros(0, np.float32))
    results = set()
    for order in itertools.permutations(parts):
        merged = NumberSummary()
        for part in order:
            merged.merge(summary_of(part))
        found = merged.result({1.0: 1})
        results.add((found.mean, found.stddev, found.min, found.max, found.zeros))
    assert len(results) == 1


def test_exact_quantiles_are_numpys():
    rng = np.random.default_rng(6)
    values = rng.integers(0, 40, 997)
    counts = dict(zip(*(part.tolist() for part in np.unique(values, return_counts=True))))
    levels = np.arange(101) / 100
    expected = np.quantile(values, levels, method="inverted_cdf")
    assert exact_quantiles(counts) == tuple(expected.tolist())
    assert exact_quantiles({1: 1, 2: 2, 3: 1})[25:77:25] == (1, 2, 2)
    assert exact_quantiles({1: 1, 2: 2, 3: 1})[76] == 3


@pytest.mark.parametrize("name", ["normal", "exponential", "uniform"])
def test_estimated_quantiles_are_near(name):
    values = getattr(np.random.default_rng(7), name)(size=100_000)
    found = summary_of(*np.array_split(values, 13)).result(None)
    ranks = np.searchsorted(np.sort(values), found.quantiles) / len(values)
    assert np.abs(ranks - np.arange(101) / 100).max() < 0.002
    assert not found.quantiles_exact
