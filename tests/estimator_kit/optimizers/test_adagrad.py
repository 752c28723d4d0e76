"""The kit's Adagrad compared with TensorFlow's: the same variables, slots and names."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.optimizers.sparse import AdagradOptimizer

v1 = tf.compat.v1
ROWS, WIDTH = 7, 3


def trained(optimizer, ids, gradients, *, device=None):
    """All variables by name after a step for each list of ids, and the types of the ops."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        start = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) / 10
        with tf.device(device):
            table = v1.get_variable("table", initializer=start, use_resource=True)
            bias = v1.get_variable("bias", initializer=np.float32([0.5]), use_resource=True)
        step_ids = v1.placeholder(tf.int64, [None])
        step_gradients = v1.placeholder(tf.float32, [None, WIDTH])
        loss = tf.reduce_sum(tf.gather(table, step_ids) * step_gradients) + 2 * bias[0]
        step = optimizer(0.3).minimize(loss)
        types = {operation.type for operation in graph.get_operations()}
        if device is not None:
            return None, types
        session.run(v1.global_variables_initializer())
        for some_ids, some_gradients in zip(ids, gradients):
            session.run(step, {step_ids: some_ids, step_gradients: some_gradients})
        return session.run({v.op.name: v for v in v1.global_variables()}), types


@pytest.mark.parametrize("seed", range(5))
def test_it_steps_as_tensorflows_does(seed):
    random = np.random.default_rng(seed)
    # Rows that occur twice in a step, in several steps, never, and a step without any.
    ids = [random.integers(0, ROWS - 1, size=size) for size in (1, 9, 0, 4)]
    gradients = [random.normal(size=(len(i), WIDTH)) * 10.0 ** random.integers(-3, 3) for i in ids]
    ours, types = trained(AdagradOptimizer, ids, gradients)
    theirs, _ = trained(v1.train.AdagradOptimizer, ids, gradients)
    assert "ResourceSparseApplyAdagrad" not in types
    assert set(ours) == set(theirs) == {"table", "table/Adagrad", "bias", "bias/Adagrad"}
    for name, value in theirs.items():
        # A row is its start less some steps of about 1, and may come near 0.
        np.testing.assert_allclose(ours[name], value, rtol=1e-6, atol=2e-6, err_msg=name)
    untouched = ours["table"][ROWS - 1]
    np.testing.assert_array_equal(untouched, np.float32([1.8, 1.9, 2.0]))


def test_a_step_by_hand():
    values, _ = trained(AdagradOptimizer, [[2, 2]], [[[1, 0, 0], [2, 0, 0]]])
    # The gradients of the row add up to 3; 0.6 - 0.3 * 3 / sqrt(0.1 + 9) = 0.301653
    np.testing.assert_allclose(values["table"][2], [0.301653, 0.7, 0.8], atol=1e-6)
    np.testing.assert_allclose(values["table/Adagrad"][2], [9.1, 0.1, 0.1], rtol=1e-6)


def test_on_a_parameter_server_a_step_is_one_op():
    _, types = trained(AdagradOptimizer, [], [], device="/job:ps/task:0")
    assert "ResourceSparseApplyAdagrad" in types
    assert "ResourceScatterUpdate" not in types
