"""How much two float32 sums of the same terms may differ, whatever the order of their additions.

    assert_within(found, x @ kernel, of_product(x, kernel))

A relative tolerance fails for a sum near 0, whose terms are not near 0. The bound comes from the
terms: n additions and products, each rounded by 2^-24 of a number that is at most the sum of the
absolute terms (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

FLOAT32 = 2.0**-24

# For the logits of one model, computed twice: each is a sum of at most some ten numbers of about 1.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def assert_within(found: Any, expected: Any, bound: Any) -> None:
    """Checks that each number differs by at most its bound. The arguments have one shape."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert found.shape == expected.shape
    excess = np.abs(found - expected) - bound
    assert (excess <= 0).all(), f"{found} differs from {expected} by {excess.max()} over {bound}"


def of_product(a: Any, b: Any, unit: float = FLOAT32) -> np.ndarray:
    """The bound of each number of a @ b, for two ways to compute it in numbers of a type.

    `unit` is half the distance of 1 and the next number of the type.
    """
    a, b = np.abs(np.asarray(a, np.float64)), np.abs(np.asarray(b, np.float64))
    return 2 * unit * (a.shape[-1] + 1) * (a @ b)


def of_sum(*terms: Any, unit: float = FLOAT32) -> np.ndarray:
    """The bound of the sum of terms, which are numbers or arrays of one shape."""
    sizes = [np.abs(np.asarray(term, np.float64)) for term in terms]
    return 2 * unit * (len(sizes) + 1) * sum(sizes)
