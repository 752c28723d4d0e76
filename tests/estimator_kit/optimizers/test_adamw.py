"""AdamW, compared with NumPy and with Keras."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.optimizers.choice import make_optimizer
from tests.estimator_kit.optimizers.test_lazy_adam import ROWS, START, WIDTH, trained

v1 = tf.compat.v1
DECAY = 0.2


def adamw(rate, decay=DECAY):
    return make_optimizer({"adamw": {"weight_decay": decay}}, rate)


def by_numpy(ids, gradients, *, dense):
    w, m, v = START.astype(float), np.zeros((ROWS, WIDTH)), np.zeros((ROWS, WIDTH))
    for t, (some_ids, some_gradients) in enumerate(zip(ids, gradients), 1):
        total = np.zeros((ROWS, WIDTH))
        np.add.at(total, some_ids, some_gradients)
        for row in range(ROWS) if dense else set(some_ids):
            m[row] = 0.9 * m[row] + 0.1 * total[row]
            v[row] = 0.999 * v[row] + 0.001 * total[row] ** 2
            rate = 0.3 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            w[row] -= 0.3 * DECAY * w[row] + rate * m[row] / (np.sqrt(v[row]) + 1e-8)
    return {"table": w, "table/Adam": m, "table/Adam_1": v}


@pytest.mark.parametrize("dense", [False, True])
def test_steps_by_hand(dense):
    random = np.random.default_rng(1)
    ids = [random.integers(0, ROWS - 1, size=size).tolist() for size in (1, 9, 0, 4, 5)]
    gradients = [random.normal(size=(len(i), WIDTH)) for i in ids]
    found, _ = trained(adamw, ids, gradients, dense=dense)
    for name, value in by_numpy(ids, gradients, dense=dense).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    untouched = (found["table"][ROWS - 1] == START[ROWS - 1]).all()
    assert untouched != dense  # A table keeps the rows that no batch had, bit for bit.


def test_without_decay_it_is_lazy_adam():
    ids, gradients = [[1, 1, 3]] * 2, [np.ones((3, WIDTH))] * 2
    ours, _ = trained(lambda rate: adamw(rate, 0.0), ids, gradients)
    theirs, _ = trained(lambda rate: make_optimizer("lazy_adam", rate), ids, gradients)
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


def test_dense_variables_move_as_in_keras():
    random = np.random.default_rng(3)
    ids = [list(range(ROWS))] * 6
    gradients = [random.normal(size=(ROWS, WIDTH)).astype(np.float32) for _ in ids]
    ours, _ = trained(adamw, ids, gradients, dense=True)
    table = tf.Variable(START)
    keras = tf.keras.optimizers.AdamW(0.3, weight_decay=DECAY, epsilon=1e-8)
    for gradient in gradients:
        keras.apply_gradients([(tf.constant(gradient), table)])
    np.testing.assert_allclose(ours["table"], table.numpy(), rtol=1e-4, atol=1e-5)


def test_the_first_step_of_the_docstring():
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=2.0, use_resource=True)
        step = make_optimizer({"adamw": {"weight_decay": 0.5}}, 0.1).minimize(3 * weight)
        session.run(v1.global_variables_initializer())
        session.run(step)
        assert session.run(weight) == pytest.approx(1.8)
