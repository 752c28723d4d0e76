"""Operations of einsums, by hand. `scoring/test_flops.py` counts products."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_kit.model import operations


@pytest.mark.parametrize(
    ("equation", "left", "right", "expected"),
    [
        ("nw,ewr->ner", [None, 8], [3, 8, 2], (2 * 8 * 3 * 2, False)),
        ("ne,new->nw", [None, 3], [None, 3, 8], (2 * 3 * 8, False)),
        ("nqhd,nkhd->nhqk", [None, 5, 2, 4], [None, 5, 2, 4], (2 * 5 * 5 * 2 * 4, False)),
        ("nqhd,nkhd->nhqk", [None, None, 2, 4], [None, None, 2, 4], (2 * 2 * 4, True)),
        ("...a,ab->...b", [None, 4], [4, 3], (0, True)),
    ],
)
def test_einsums_by_hand(equation, left, right, expected):
    with tf.Graph().as_default():
        a, b = (tf.compat.v1.placeholder(tf.float32, shape) for shape in (left, right))
        products = [
            op for op in operations.needed([tf.einsum(equation, a, b)]) if op.type == "Einsum"
        ]
        assert [operations.of_product(op) for op in products] == [expected]
