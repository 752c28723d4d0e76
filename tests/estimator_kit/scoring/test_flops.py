"""The operations of a prediction, counted by hand."""

from __future__ import annotations

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.model import operations
from estimator_kit.observing.measured_export import Flops
from estimator_kit.observing.page import numbers
from estimator_kit.result import read_result
from estimator_kit.scoring import measured
from tests.conftest import small_run


def product(left, right, **flags):
    """The count of a product of two placeholders with these shapes."""
    with tf.Graph().as_default():
        a, b = (tf.compat.v1.placeholder(tf.float32, shape) for shape in (left, right))
        return operations.of_product(tf.matmul(a, b, **flags).op)


@pytest.mark.parametrize(
    ("left", "right", "flags", "expected"),
    [
        ([None, 8], [8, 4], {}, (2 * 8 * 4, False)),
        ([None, 8], [4, 8], {"transpose_b": True}, (2 * 8 * 4, False)),
        ([8, None], [8, 4], {"transpose_a": True}, (2 * 8 * 4, False)),
        ([None, 3, 8], [None, 8, 4], {}, (2 * 3 * 8 * 4, False)),
        ([None, None, 8], [None, 8, 4], {}, (2 * 8 * 4, True)),  # Steps of a list.
        ([None, 3, 8], [None, 3, 8], {"transpose_b": True}, (2 * 3 * 8 * 3, False)),
        (None, [8, 4], {}, (0, True)),
    ],
)
def test_products_by_hand(left, right, flags, expected):
    assert product(left, right, **flags) == expected


@pytest.mark.ci
def test_a_dnn_costs_its_kernels(ads, tmp_path):
    """2 operations for each weight of the kernels; the export has no others."""
    folder = tmp_path / "run"
    ek.run(small_run(ads, folder, max_steps=1, model="dnn", exporters=("final",), report="off")())
    found = measured.count(read_result(str(folder)).exports["final"])
    kernels = [
        table for table in numbers.read(str(folder)).tables
        if table.name.endswith("/kernel") and not table.is_slot
    ]  # fmt: skip
    operations = 2 * sum(table.parameters for table in kernels)
    assert found == Flops(a_row=operations, by_op={"MatMul": operations}, varying=0)
    assert len(kernels) >= 2
