"""Lazy Adam, compared with NumPy and TensorFlow's Adam."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from estimator_kit.optimizers.sparse import LazyAdamOptimizer

v1 = tf.compat.v1
ROWS, WIDTH = 7, 3
START = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) / 10


def trained(optimizer, ids, gradients, *, dense=False):
    """All variables by name after a step for each list of ids, and the types of the ops."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        table = v1.get_variable("table", initializer=START, use_resource=True)
        step_ids = v1.placeholder(tf.int64, [None])
        step_gradients = v1.placeholder(tf.float32, [None, WIDTH])
        rows = tf.one_hot(step_ids, ROWS) @ table if dense else tf.gather(table, step_ids)
        step = optimizer(0.3).minimize(tf.reduce_sum(rows * step_gradients))
        session.run(v1.global_variables_initializer())
        for some_ids, some_gradients in zip(ids, gradients):
            session.run(step, {step_ids: some_ids, step_gradients: some_gradients})
        types = {operation.type for operation in graph.get_operations()}
        return session.run({v.op.name: v for v in v1.global_variables()}), types


def by_numpy(ids, gradients):
    w, m, v = START.astype(float), np.zeros((ROWS, WIDTH)), np.zeros((ROWS, WIDTH))
    for t, (some_ids, some_gradients) in enumerate(zip(ids, gradients), 1):
        total = np.zeros((ROWS, WIDTH))
        np.add.at(total, some_ids, some_gradients)
        for row in set(some_ids):
            m[row] = 0.9 * m[row] + 0.1 * total[row]
            v[row] = 0.999 * v[row] + 0.001 * total[row] ** 2
            rate = 0.3 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            w[row] -= rate * m[row] / (np.sqrt(v[row]) + 1e-8)
    return {"table": w, "table/Adam": m, "table/Adam_1": v}


def test_steps_with_rows_twice_now_and_then_and_never():
    random = np.random.default_rng(1)
    ids = [random.integers(0, ROWS - 1, size=size).tolist() for size in (1, 9, 0, 4, 5)]
    gradients = [random.normal(size=(len(i), WIDTH)) for i in ids]
    found, types = trained(LazyAdamOptimizer, ids, gradients)
    assert set(found) == {"table", "table/Adam", "table/Adam_1", "beta1_power", "beta2_power"}
    for name, value in by_numpy(ids, gradients).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    # Bit for bit, and by no op that walks the table.
    np.testing.assert_array_equal(found["table"][ROWS - 1], START[ROWS - 1])
    assert not types & {"ResourceApplyAdam", "ResourceScatterAdd"}
    assert "ResourceScatterUpdate" in types


def test_when_every_step_has_every_row_it_is_adam():
    random = np.random.default_rng(2)
    ids = [list(range(ROWS)) * 2] * 4
    gradients = [random.normal(size=(2 * ROWS, WIDTH)) for _ in ids]
    ours, _ = trained(LazyAdamOptimizer, ids, gradients)
    for dense in (False, True):
        theirs, _ = trained(v1.train.AdamOptimizer, ids, gradients, dense=dense)
        assert set(ours) == set(theirs)
        for name, value in theirs.items():
            np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_first_step_is_as_long_as_the_rate():
    found, _ = trained(LazyAdamOptimizer, [[2]], [[[5, -0.01, 0]]])
    np.testing.assert_allclose(found["table"][2], [0.6 - 0.3, 0.7 + 0.3, 0.8], atol=2e-5)
