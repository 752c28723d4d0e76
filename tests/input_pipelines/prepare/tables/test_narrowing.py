"""Which numbers a float32 does not keep, compared with Python's exact fractions."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from input_pipelines.prepare.tables.storable import as_written, to_float32

pytestmark = pytest.mark.no_tensorflow


def is_rounded(text):
    """Whether a number has more than 7 digits and no float32 is equal to it."""
    number = Decimal(text)
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    stored = np.float32(float(text))
    return len(digits) > 7 and Fraction(float(stored)) != Fraction(number)


def counts(array):
    narrow = to_float32(as_written(array))
    return narrow.rounded, narrow.zeros


def test_integers_are_the_nearest_float32():
    rng = random.Random(1)
    numbers = [rng.getrandbits(rng.randrange(1, 64)) * rng.choice([1, -1]) for _ in range(2000)]
    numbers += [10**i + d for i in range(19) for d in (-1, 0, 1)]
    numbers += [2**i + d for i in range(62) for d in (-1, 0, 1)] + [2**63 - 1, -(2**63)]
    found = to_float32(as_written(pa.array(numbers, pa.int64())))
    for number, value in zip(numbers, found.values):
        others = [np.nextafter(value, np.float32(end)) for end in (-np.inf, np.inf)]
        assert abs(number - int(value)) <= min(abs(number - int(other)) for other in others)
    lost = [
        int(value) != number and len(str(abs(number)).rstrip("0")) > 7
        for number, value in zip(numbers, found.values)
    ]
    assert (found.rounded, found.zeros, len(found.too_large)) == (sum(lost), 0, 0)
    # 10^19 has one digit, 2^63 has 19, but is a float32.
    unsigned = pa.array([2**64 - 1, 2**63, 10**19, 10**19 + 1, None], pa.uint64())
    assert counts(unsigned) == (2, 0)
    assert to_float32(unsigned).values.tolist()[:2] == [2.0**64, 2.0**63]


def test_floats_and_text():
    rng = random.Random(2)
    sizes = [(rng.randrange(10 ** rng.randrange(1, 20)), rng.randrange(-37, 18))
             for _ in range(2000)]  # fmt: skip
    texts = [f"{rng.choice(['', '-'])}{number}e{power}" for number, power in sizes]
    texts += ["16777217", "9007199254740993", "0.1", "1.5000000000000000000", "0.30000000000000004",
              "1000000.00000000001", "1.00000000000001", "1234567e10", "-0", "0.10"]  # fmt: skip
    texts = [text for text in texts if abs(float(text)) > 2e-38 or float(text) == 0]
    assert counts(pa.array(texts)) == (sum(map(is_rounded, texts)), 0)
    floats = [float(text) for text in texts]
    assert counts(pa.array(floats)) == (sum(is_rounded(repr(number)) for number in floats), 0)
    narrow = to_float32(as_written(pa.array(texts)))
    np.testing.assert_array_equal(narrow.values, np.array(floats).astype(np.float32))


def test_numbers_near_zero_and_numbers_without_end():
    texts = ["1e-50", "-1e-400", "0.0", "0e5", "1e-40", None, "nan", "-inf", "1e39", "1e400"]
    narrow = to_float32(as_written(pa.array(texts)))
    # Of the digits of 1e-40, a float32 keeps five.
    assert (narrow.rounded, narrow.zeros, narrow.too_large.tolist()) == (1, 2, [8, 9])
    assert counts(pa.array([1e-50, 5e-324, 0.0, -0.0, np.nan, np.inf, 1e-40, None])) == (1, 2)
    assert counts(pa.array([True, None, False])) == (0, 0)
    assert counts(pa.array([Decimal("1e-30"), Decimal("0.5")], pa.decimal128(38, 30))) == (0, 0)
    assert counts(pa.array([0.1, 1e-40], pa.float32())) == (0, 0)
