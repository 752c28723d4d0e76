"""A loaded version runs a signature with any inputs and outputs that it has."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.serving.loaded_model import LoadedModel

v1 = tf.compat.v1


@pytest.fixture
def model(tmp_path):
    """double = 2a, sum = a + b; `same` is the input b itself, and `again` is `sum`."""
    with tf.Graph().as_default(), v1.Session() as session:
        a, b = (v1.placeholder(tf.float32, [None], name) for name in "ab")
        total = a + b
        outputs = {"double": 2 * a, "sum": total, "same": b, "again": total}
        v1.saved_model.simple_save(session, str(tmp_path / "1"), {"a": a, "b": b}, outputs)
    loaded = LoadedModel(str(tmp_path / "1"), 1)
    yield loaded
    loaded.close()


INPUTS = {"b": np.array([10, 20], np.float32), "a": np.array([1, 2], np.float32)}


@pytest.mark.parametrize(
    "outputs, expected",
    [
        (["same", "double"], {"same": [10, 20], "double": [2, 4]}),
        (["again", "double", "sum"], {"again": [11, 22], "double": [2, 4], "sum": [11, 22]}),
        (["same"], {"same": [10, 20]}),
    ],
)
def test_outputs_in_the_order_of_the_request(model, outputs, expected):
    for _ in range(2):
        found = model.run("serving_default", INPUTS, outputs)
        assert list(found) == outputs
        assert {name: value.tolist() for name, value in found.items()} == expected
    assert len(model._plans) == 1


def test_each_set_of_outputs_is_run_on_its_own(model):
    inputs = {"a": INPUTS["a"], "b": INPUTS["b"]}
    assert model.run("serving_default", inputs, ["double"])["double"].tolist() == [2, 4]
    inputs = {"a": INPUTS["b"], "b": INPUTS["a"]}
    assert model.run("serving_default", inputs, ["double"])["double"].tolist() == [20, 40]
    assert model.run("serving_default", inputs, ["sum"])["sum"].tolist() == [11, 22]
    assert len(model._plans) == 2
