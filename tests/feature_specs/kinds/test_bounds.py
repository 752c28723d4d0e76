"""Bounds as numbers of a type, compared with NumPy's neighbors of each number."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from feature_specs.kinds import bounds

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
