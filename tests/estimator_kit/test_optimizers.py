"""One training step: who updates what, clipping, and that a bad step is not applied."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.optimizers import OPTIMIZERS, make_optimizer, minimize


def step(make_loss, optimizers, *, clip_norm=None, steps=1):
    """Values of all variables after some steps, and the global step."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        train_op = minimize(make_loss(), optimizers, clip_norm=clip_norm)
        session.run(tf.compat.v1.global_variables_initializer())
        variables = {v.op.name: v for v in tf.compat.v1.trainable_variables()}
        try:
            for _ in range(steps):
                session.run(train_op)
        except tf.errors.InvalidArgumentError as error:
            return session.run(variables), error.message
        return session.run((variables, tf.compat.v1.train.get_global_step()))


def two_variables():
    a = tf.compat.v1.get_variable("wide/a", initializer=3.0)
    b = tf.compat.v1.get_variable("deep/b", initializer=4.0)
    return a + 2 * b


def test_variables_go_to_the_first_optimizer_whose_prefix_they_have():
    sgd = make_optimizer("sgd", 1.0), make_optimizer("sgd", 0.5)
    values, count = step(two_variables, [("wide/", sgd[0]), ("", sgd[1])], steps=2)
    assert values == {"wide/a": 3 - 2 * 1, "deep/b": 4 - 2 * 0.5 * 2}
    assert count == 2


def test_a_variable_without_an_optimizer_is_an_error():
    with pytest.raises(ConfigError, match="no optimizer for the variable 'deep/b'"):
        step(two_variables, [("wide/", make_optimizer("sgd", 1.0))])


def test_clipping_is_by_the_norm_of_all_gradients():
    values, _ = step(two_variables, [("", make_optimizer("sgd", 1.0))], clip_norm=1.0)
    norm = np.sqrt(1 + 4)
    np.testing.assert_allclose([values["wide/a"], values["deep/b"]], [3 - 1 / norm, 4 - 2 / norm])


@pytest.mark.parametrize(
    ("make_loss", "what"),
    [
        (lambda: tf.math.log(tf.compat.v1.get_variable("x", initializer=-1.0)), "the loss"),
        (lambda: tf.sqrt(tf.compat.v1.get_variable("x", initializer=0.0)), "a gradient"),
    ],
)
def test_a_step_that_is_not_finite_is_not_applied(make_loss, what):
    values, message = step(make_loss, [("", make_optimizer("sgd", 1.0))])
    assert f"estimator_kit training check: {what}" in message
    assert values["x"] in (-1.0, 0.0)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_goes_downhill(name):
    def loss():
        return tf.square(tf.compat.v1.get_variable("x", initializer=3.0))

    values, _ = step(loss, [("", make_optimizer(name, 0.1))], steps=5)
    assert abs(values["x"]) < 3


def test_update_ops_run_before_the_step_counts():
    def loss():
        seen = tf.compat.v1.get_variable("seen", initializer=0.0, trainable=False)
        update = seen.assign_add(1.0)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, update)
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES, seen)
        return tf.square(tf.compat.v1.get_variable("x", initializer=3.0))

    values, _ = step(loss, [("", make_optimizer("sgd", 0.1))], steps=3)
    assert values["seen"] == 3


def test_unknown_names_and_rates():
    with pytest.raises(ConfigError) as error:
        make_optimizer("adagard", 0.1)
    assert str(error.value) == "no optimizer 'adagard'; did you mean 'adagrad'?"
    with pytest.raises(ConfigError, match="learning rate: got 0, expected a number above 0"):
        make_optimizer("sgd", 0)
