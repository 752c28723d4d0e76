"""The optimizers of tables, compared with NumPy, TensorFlow and Keras."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.optimizers.choice import make_optimizer
from estimator_kit.optimizers.sparse import AdagradOptimizer, LazyAdamOptimizer

v1 = tf.compat.v1
ROWS, WIDTH = 7, 3
START = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH) / 10
DECAY = 0.2
# Rows that occur twice in a step, in several steps, never, and a step without any.
SIZES = (1, 9, 0, 4, 5)


def trained(optimizer, ids, gradients, *, dense=False, bias=False, device=None):
    """All variables by name after a step for each list of ids, and the types of the ops."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        with tf.device(device):
            table = v1.get_variable("table", initializer=START, use_resource=True)
            if bias:
                bias = v1.get_variable("bias", initializer=np.float32([0.5]), use_resource=True)
        step_ids = v1.placeholder(tf.int64, [None])
        step_gradients = v1.placeholder(tf.float32, [None, WIDTH])
        rows = tf.one_hot(step_ids, ROWS) @ table if dense else tf.gather(table, step_ids)
        loss = tf.reduce_sum(rows * step_gradients)
        step = optimizer(0.3).minimize(loss if bias is False else loss + 2 * bias[0])
        types = {operation.type for operation in graph.get_operations()}
        if device is not None:
            return None, types
        session.run(v1.global_variables_initializer())
        for some_ids, some_gradients in zip(ids, gradients):
            session.run(step, {step_ids: some_ids, step_gradients: some_gradients})
        return session.run({v.op.name: v for v in v1.global_variables()}), types


def batches(seed, scales=(0, 1)):
    random = np.random.default_rng(seed)
    ids = [random.integers(0, ROWS - 1, size=size).tolist() for size in SIZES]
    return ids, [
        random.normal(size=(len(i), WIDTH)) * 10.0 ** random.integers(*scales) for i in ids
    ]


def adamw(rate, decay=DECAY):
    return make_optimizer({"adamw": {"weight_decay": decay}}, rate)


def adam_by_numpy(ids, gradients, *, decay, dense):
    w, m, v = START.astype(float), np.zeros((ROWS, WIDTH)), np.zeros((ROWS, WIDTH))
    for t, (some_ids, some_gradients) in enumerate(zip(ids, gradients), 1):
        total = np.zeros((ROWS, WIDTH))
        np.add.at(total, some_ids, some_gradients)
        for row in range(ROWS) if dense else set(some_ids):
            m[row] = 0.9 * m[row] + 0.1 * total[row]
            v[row] = 0.999 * v[row] + 0.001 * total[row] ** 2
            rate = 0.3 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            w[row] -= 0.3 * decay * w[row] + rate * m[row] / (np.sqrt(v[row]) + 1e-8)
    return {"table": w, "table/Adam": m, "table/Adam_1": v}


@pytest.mark.parametrize("seed", range(5))
def test_adagrad_steps_as_tensorflows_does(seed):
    ours, types = trained(AdagradOptimizer, *batches(seed, (-3, 3)), bias=True)
    theirs, _ = trained(v1.train.AdagradOptimizer, *batches(seed, (-3, 3)), bias=True)
    assert "ResourceSparseApplyAdagrad" not in types
    assert set(ours) == set(theirs) == {"table", "table/Adagrad", "bias", "bias/Adagrad"}
    for name, value in theirs.items():
        # A row is its start less some steps of about 1, and may come near 0.
        np.testing.assert_allclose(ours[name], value, rtol=1e-6, atol=2e-6, err_msg=name)
    np.testing.assert_array_equal(ours["table"][ROWS - 1], np.float32([1.8, 1.9, 2.0]))


def test_a_step_of_adagrad_by_hand():
    values, _ = trained(AdagradOptimizer, [[2, 2]], [[[1, 0, 0], [2, 0, 0]]])
    # The gradients of the row add up to 3; 0.6 - 0.3 * 3 / sqrt(0.1 + 9) = 0.301653
    np.testing.assert_allclose(values["table"][2], [0.301653, 0.7, 0.8], atol=1e-6)
    np.testing.assert_allclose(values["table/Adagrad"][2], [9.1, 0.1, 0.1], rtol=1e-6)


def test_on_a_parameter_server_a_step_of_adagrad_is_one_op():
    _, types = trained(AdagradOptimizer, [], [], device="/job:ps/task:0")
    assert "ResourceSparseApplyAdagrad" in types
    assert "ResourceScatterUpdate" not in types


@pytest.mark.parametrize(
    ("optimizer", "decay", "dense"),
    [(LazyAdamOptimizer, 0.0, False), (adamw, DECAY, False), (adamw, DECAY, True)],
)
def test_steps_of_adam_by_hand(optimizer, decay, dense):
    ids, gradients = batches(1)
    values, types = trained(optimizer, ids, gradients, dense=dense)
    expected = adam_by_numpy(ids, gradients, decay=decay, dense=dense)
    assert set(values) == {*expected, "beta1_power", "beta2_power"}
    for name, value in expected.items():
        atol = 1e-5 if decay else 1e-6
        np.testing.assert_allclose(values[name], value, rtol=1e-4, atol=atol, err_msg=name)
    # A table keeps the rows that no batch had, bit for bit, and no op walks it.
    assert (values["table"][ROWS - 1] == START[ROWS - 1]).all() != dense
    if not dense:
        assert not types & {"ResourceApplyAdam", "ResourceScatterAdd"}
        assert "ResourceScatterUpdate" in types


@pytest.mark.parametrize("dense", [False, True])
def test_when_every_step_has_every_row_lazy_adam_is_adam(dense):
    random = np.random.default_rng(2)
    ids = [list(range(ROWS)) * 2] * 4
    gradients = [random.normal(size=(2 * ROWS, WIDTH)) for _ in ids]
    ours, _ = trained(LazyAdamOptimizer, ids, gradients)
    theirs, _ = trained(v1.train.AdamOptimizer, ids, gradients, dense=dense)
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_first_step_of_lazy_adam_is_as_long_as_the_rate():
    values, _ = trained(LazyAdamOptimizer, [[2]], [[[5, -0.01, 0]]])
    np.testing.assert_allclose(values["table"][2], [0.6 - 0.3, 0.7 + 0.3, 0.8], atol=2e-5)


def test_adamw_without_decay_is_lazy_adam():
    ids, gradients = [[1, 1, 3]] * 2, [np.ones((3, WIDTH))] * 2
    ours, _ = trained(lambda rate: adamw(rate, 0.0), ids, gradients)
    theirs, _ = trained(lambda rate: make_optimizer("lazy_adam", rate), ids, gradients)
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


def test_adamw_moves_dense_variables_as_keras_does():
    random = np.random.default_rng(3)
    ids = [list(range(ROWS))] * 6
    gradients = [random.normal(size=(ROWS, WIDTH)).astype(np.float32) for _ in ids]
    ours, _ = trained(adamw, ids, gradients, dense=True)
    table = tf.Variable(START)
    keras = tf.keras.optimizers.AdamW(0.3, weight_decay=DECAY, epsilon=1e-8)
    for gradient in gradients:
        keras.apply_gradients([(tf.constant(gradient), table)])
    np.testing.assert_allclose(ours["table"], table.numpy(), rtol=1e-4, atol=1e-5)


def test_the_first_step_of_adamw_in_its_docstring():
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=2.0, use_resource=True)
        step = make_optimizer({"adamw": {"weight_decay": 0.5}}, 0.1).minimize(3 * weight)
        session.run(v1.global_variables_initializer())
        session.run(step)
        assert session.run(weight) == pytest.approx(1.8)
