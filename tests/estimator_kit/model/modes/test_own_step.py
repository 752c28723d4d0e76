"""A model's own `train_op` and `optimizers`: each parameter is applied, or refused by name."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model.model_params import ModelParams, changes_of
from estimator_kit.model.modes.own_step import OF_OPTIMIZERS, OF_STEP
from tests.conftest import make_rows
from tests.estimator_kit.model.test_model_fn import Constant, build
from tests.placed import without_place

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN

# For each parameter of a step, a value that is not its default.
VALUES = {
    "optimizer": "adam",
    "learning_rate": 0.5,
    "optimizers": {"nothing": "sgd"},
    "schedule": {"cosine": {"decay_steps": 5}},
    "warm_up_steps": 7,
    "freeze": ("value",),
    "clip_norm": 1e-9,
    "clip_value": 1e-9,
    "accumulate": 1000,
    "moving_average": 0.9,
}


class OwnStep(Constant):
    def train_op(self, loss):
        return v1.train.GradientDescentOptimizer(1.0).minimize(loss, v1.train.get_global_step())


class KitStep(Constant):
    def train_op(self, loss):
        return super().train_op(loss)


class OwnOptimizers(Constant):
    def optimizers(self):
        return [("", self.make_optimizer("sgd", 1.0))]


class ReadsAll(Constant):
    """Passes a copy of its parameters on, so that the kit cannot know which of them it uses."""

    def train_op(self, loss):
        limits = self.params.model_dump(include={"clip_norm", "clip_value"})
        return ek.minimize(loss, [("", ek.make_optimizer("sgd", 0.1))], **limits)


@pytest.fixture
def spec(document):
    return feature_specs.parse(document)


def refused(model):
    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(model, TRAIN)
    return without_place(error.value)


def test_each_parameter_of_a_model_has_a_value_here():
    training = [n for n in ModelParams.model_fields if "training" in changes_of(ModelParams, n)]
    assert tuple(VALUES) == OF_STEP == tuple(n for n in training if n != "combine")


@pytest.mark.parametrize("name", VALUES)
def test_a_parameter_that_an_own_train_op_does_not_read_is_refused(spec, name):
    model = OwnStep(spec, {name: VALUES[name]})
    assert refused(model) == (
        f"OwnStep.train_op does not read the parameter {name}, so it would do nothing, got "
        f"{getattr(model.params, name)!r}. Use self.params.{name} in the method, or remove the "
        "parameter."
    )
    with tf.Graph().as_default():  # The default is not refused.
        build(OwnStep(spec, {name: getattr(ModelParams(), name)}), TRAIN)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("accumulate", "clip_norm") else pytest.mark.nightly)
        for name in sorted(set(VALUES) - {"freeze", "optimizers"})
    ],
)
def test_a_train_op_that_calls_the_kit_applies_each_parameter(spec, name):
    def trained(model):
        with tf.Graph().as_default(), v1.Session() as session:
            made = build(model, TRAIN)
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            for _ in range(2):
                session.run(made.train_op)
            return {v.op.name: session.run(v).tolist() for v in v1.global_variables()}

    params = {name: VALUES[name]}
    found = trained(KitStep(spec, params))
    assert found == trained(Constant(spec, params)) != trained(Constant(spec))


def test_a_train_op_that_copies_its_parameters_may_use_each_one(spec):
    with tf.Graph().as_default():
        build(ReadsAll(spec, {"clip_norm": 1e-9, "accumulate": 3}), TRAIN)


@pytest.mark.parametrize("name", OF_OPTIMIZERS)
def test_a_parameter_that_own_optimizers_do_not_read_is_refused(spec, name):
    assert refused(OwnOptimizers(spec, {name: VALUES[name]})) == (
        f"OwnOptimizers.optimizers does not read the parameter {name}, so it would do nothing, got "
        f"{VALUES[name]!r}. Use self.params.{name} in the method, or remove the parameter."
    )


def test_the_parameter_optimizers_replaces_own_optimizers(spec):
    params = {"optimizers": {"": "sgd"}, "learning_rate": 0.5, "optimizer": "adam"}
    with tf.Graph().as_default():
        build(OwnOptimizers(spec, params), TRAIN)
    with tf.Graph().as_default():
        build(KitStep(spec, params), TRAIN)


def test_moving_averages_that_an_own_train_op_does_not_keep_are_refused(spec):
    class Reads(Constant):
        def train_op(self, loss):
            assert self.params.moving_average
            return ek.minimize(loss, [("", ek.make_optimizer("sgd", 0.1))])

    assert refused(Reads(spec, {"moving_average": 0.9})) == (
        "Reads.train_op keeps no moving average of value, so the parameter moving_average would do "
        "nothing, got 0.9. Pass average=self.params.moving_average to ek.minimize, or remove the "
        "parameter."
    )


def test_a_train_op_that_returns_nothing_is_refused(spec):
    class Nothing(Constant):
        def train_op(self, loss):
            super().train_op(loss)

    assert refused(Nothing(spec)) == (
        "Nothing.train_op: expected an op, got None. Return the result of minimize, or a tf.group."
    )


def step_of(amount):
    return v1.assign_add(v1.train.get_global_step(), amount)


TWICE = {
    "two optimizers": (lambda loss: [sgd(loss), sgd(loss)], [1, 1]),
    "an own count": (lambda loss: [sgd(loss), step_of(1)], [1, 1]),
    "another amount": (lambda loss: [step_of(10)], [10]),
}


@pytest.mark.parametrize("case", TWICE)
def test_a_step_that_does_not_count_by_one_is_refused(spec, case):
    ops_of, amounts = TWICE[case]

    class Counts(Constant):
        def train_op(self, loss):
            return tf.group(ops_of(loss))

    text = refused(Counts(spec))
    assert text.startswith("Counts.train_op: expected one op that adds 1 to the global step for ")
    assert [int(n) for n in re.findall(r"that adds (\d+)", text.partition(", got ")[2])] == amounts


def test_a_step_that_also_reads_its_count_is_not_refused(spec):
    class Reads(Constant):
        def train_op(self, loss):
            step = v1.train.get_global_step()
            rate = tf.cond(step > 5, lambda: tf.cast(step, tf.float32), lambda: 0.1)
            optimizer = v1.train.GradientDescentOptimizer(rate)
            variables = v1.trainable_variables()
            pairs = optimizer.compute_gradients(loss, variables)
            return tf.group(sgd(loss), optimizer.apply_gradients(pairs))

    with tf.Graph().as_default():
        build(Reads(spec), TRAIN)


# TensorFlow warns of its older layers, which the code of Estimators uses.
OLD_LAYERS = pytest.mark.filterwarnings("ignore:`tf.layers.batch_normalization` is deprecated")


class Averaged(ek.ModelFn):
    """Batch normalization of TensorFlow 1 over the price, which training does not change."""

    momentum = 0.5

    def logits(self, features, mode):
        price = v1.layers.batch_normalization(
            features["price"], training=mode == TRAIN, momentum=self.momentum, name="norm"
        )
        self.add_output("normal", price)
        return ek.dense_layer(price, self.logits_dimension, "logits")


def sgd(loss, **arguments):
    return v1.train.GradientDescentOptimizer(0.1).minimize(
        loss, v1.train.get_global_step(), **arguments
    )


class WithoutUpdates(Averaged):
    def train_op(self, loss):
        return sgd(loss)


class WithUpdates(Averaged):
    """As Estimator code does."""

    def train_op(self, loss):
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
            return sgd(loss)


class OnlyTheMean(Averaged):
    def train_op(self, loss):
        return tf.group(sgd(loss), v1.get_collection(v1.GraphKeys.UPDATE_OPS)[0])


class Frozen(Averaged):
    def train_op(self, loss):
        return ek.minimize(loss, [("", ek.make_optimizer("sgd", 0.1))], freeze=["norm/"])


def averages(model, steps=2):
    """The moving mean and variance after some steps on the same batch of 30 rows."""
    with tf.Graph().as_default(), v1.Session() as session:
        made = build(model, TRAIN, rows=30)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        for _ in range(steps):
            session.run(made.train_op)
        found = {v.op.name: v for v in v1.global_variables()}
        return session.run(
            [found["norm/moving_mean"], found["norm/moving_variance"], found["global_step"]]
        )


@OLD_LAYERS
@pytest.mark.parametrize(
    ("kind", "runs"),
    [
        (Averaged, (True, True)),
        (WithoutUpdates, (True, True)),
        (WithUpdates, (True, True)),
        (OnlyTheMean, (True, False)),  # The model's own choice, as in a GAN.
        (Frozen, (False, False)),
    ],
)
def test_update_ops_run_once_in_each_step_of_an_own_train_op(spec, kind, runs):
    price = np.log1p([row["price"] for row in make_rows(30)])
    mean, variance, step = averages(kind(spec))
    left = 0.5**2  # The share of the start values, 0 and 1, after two steps.
    expected = price.mean() * (1 - left) if runs[0] else 0.0
    np.testing.assert_allclose(mean, [expected], rtol=1e-4)
    expected = left + price.var() * (1 - left) if runs[1] else 1.0
    np.testing.assert_allclose(variance, [expected], rtol=1e-4)
    assert step == 2


@OLD_LAYERS
def test_an_own_batch_normalization_that_is_frozen_still_normalizes_with_the_batch(spec):
    """The kit keeps its averages. It cannot know the argument `training` of the model's code."""
    with tf.Graph().as_default(), v1.Session() as session:
        model = Averaged(spec, {"freeze": ["norm/"], "optimizer": "sgd"})
        taken = {}
        model.add_output = taken.__setitem__
        made = build(model, TRAIN, rows=30)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        normal, _ = session.run((taken["normal"], made.train_op))
        found = {v.op.name: v for v in v1.global_variables()}
        mean, variance = session.run([found["norm/moving_mean"], found["norm/moving_variance"]])
    assert (mean, variance) == (0, 1)
    assert np.mean(normal) == pytest.approx(0, abs=1e-5)  # With the averages it would be the mean.
    price = np.log1p([row["price"] for row in make_rows(30)])
    expected = (price - price.mean()) / math.sqrt(price.var() + 1e-3)
    np.testing.assert_allclose(normal[:, 0], expected, atol=1e-4)
