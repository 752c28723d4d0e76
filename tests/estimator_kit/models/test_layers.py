"""Dense layers, their initializers, regularizers and normalizations, compared with NumPy."""

from __future__ import annotations

import math

import numpy as np
import pydantic
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.models import MODELS, layers
from estimator_kit.models.dnn import DNNParams
from estimator_kit.models.initializers import _NAMED, make_initializer
from estimator_kit.models.layers import Regularizer, make_regularizer
from estimator_kit.models.normalization import ACTIVATIONS, batch_norm, layer_norm
from tests.estimator_kit.models.graphs import evaluate, mlp

X = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
close = np.testing.assert_allclose


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("elu", [math.expm1(-2), 0, 3]), ("leaky_relu", [-0.4, 0, 3]), ("linear", [-2, 0, 3]),
        ("prelu", [-0.5, 0, 3]), ("relu", [0, 0, 3]), ("relu6", [0, 0, 3]),
        ("selu", [1.0507 * 1.67326 * math.expm1(-2), 0, 3.1521]),
        ("sigmoid", [0.119203, 0.5, 0.952574]),
        ("softplus", [math.log1p(math.exp(-2)), math.log(2), math.log1p(math.exp(3))]),
        ("softsign", [-2 / 3, 0, 0.75]), ("swish", [-0.238406, 0, 2.857722]),
        ("tanh", [math.tanh(-2), 0, math.tanh(3)]),
        ("gelu", [-1 - math.erf(-2**0.5), 0, 1.5 * (1 + math.erf(3 / 2**0.5))]),
    ],
)  # fmt: skip
def test_activations_at_minus_two_zero_and_three(name, expected):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        value = ACTIVATIONS[name](tf.constant([[-2.0, 0.0, 3.0]]))
        session.run(tf.compat.v1.global_variables_initializer())
        close(session.run(value), [expected], atol=1e-4)


def test_every_activation_is_tested():
    marks = test_activations_at_minus_two_zero_and_three.pytestmark
    assert {name for name, _ in marks[0].args[1]} == set(ACTIVATIONS)


def drawn(given):
    params = DNNParams(initializer=given)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(3)
        return session.run(make_initializer(params.initializer)([300, 200]))


@pytest.mark.parametrize(
    ("given", "stddev", "limit"),
    [
        (None, math.sqrt(2 / 500), math.sqrt(6 / 500)),
        ("glorot_uniform", math.sqrt(2 / 500), math.sqrt(6 / 500)),
        ("glorot_normal", math.sqrt(2 / 500), None),
        ("he_uniform", math.sqrt(2 / 300), math.sqrt(6 / 300)),
        ("he_normal", math.sqrt(2 / 300), None),
        ("lecun_uniform", math.sqrt(1 / 300), math.sqrt(3 / 300)),
        ("lecun_normal", math.sqrt(1 / 300), None),
        ({"variance_scaling": {"scale": 3, "mode": "fan_out"}}, math.sqrt(3 / 200), None),
        ({"normal": {"stddev": 0.5}}, 0.5, None),
        ({"truncated_normal": {"stddev": 0.5}}, 0.5 * 0.8796, 1.0),
        ({"uniform": {"min": -1, "max": 1}}, math.sqrt(1 / 3), 1.0),
    ],
)  # fmt: skip
def test_random_initializers_have_their_variance(given, stddev, limit):
    value = drawn(given)
    assert value.std() == pytest.approx(stddev, rel=0.02)
    assert abs(value.mean()) < 4 * stddev / math.sqrt(value.size)
    if limit is not None:
        assert 0.95 * limit < np.abs(value).max() <= limit


def test_initializers_that_are_no_lottery():
    np.testing.assert_array_equal(drawn("zeros"), np.zeros((300, 200)))
    np.testing.assert_array_equal(drawn({"constant": 0.5}), np.full((300, 200), 0.5))
    np.testing.assert_array_equal(drawn({"identity": 2.0}), 2 * np.eye(300, 200))
    square = drawn({"orthogonal": 3.0})
    close(square.T @ square, 9 * np.eye(200), atol=1e-4)


@pytest.mark.parametrize("given", _NAMED)
def test_an_initializer_survives_being_written_down(given):
    params = DNNParams(initializer=given)
    assert DNNParams.model_validate(params.model_dump()) == params


def test_batch_norm_in_training_and_after():
    def train(x):
        y = batch_norm(x, "bn", training=True, momentum=0.9)
        # The averages are read before the update ops of the step.
        updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies([y]), tf.control_dependencies(updates):
            return tf.identity(y)

    before = evaluate(lambda x: batch_norm(x, "bn", training=False), X)
    y, after = evaluate(train, X)
    assert set(after) == {f"bn/{n}" for n in ("gamma", "beta", "moving_mean", "moving_variance")}
    mean, variance = X.mean(0), X.var(0)
    gamma, beta = after["bn/gamma"], after["bn/beta"]
    close(y, gamma * (X - mean) / np.sqrt(variance + 1e-3) + beta, rtol=1e-4, atol=1e-5)
    for name, value in (("moving_mean", mean), ("moving_variance", variance)):
        start = before[1][f"bn/{name}"]
        close(after[f"bn/{name}"], 0.9 * start + 0.1 * value, rtol=1e-4, atol=1e-6)
    value, v = before
    expected = v["bn/gamma"] * (X - v["bn/moving_mean"]) / np.sqrt(v["bn/moving_variance"] + 1e-3)
    close(value, expected + v["bn/beta"], rtol=1e-4, atol=1e-5)


def test_a_training_step_moves_the_averages(document):
    """The kit's own training op runs them, and evaluation reads them."""
    model = MODELS["dnn"](
        feature_specs.parse(document), {"batch_norm": True, "hidden_units": [3, 2]}
    )
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        y = layers.hidden_layers(
            tf.constant(X), (2,), batch_norm=True, batch_norm_momentum=0.5, training=True
        )
        train_op = model.train_op(tf.reduce_sum(y**3))
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
            kernel = session.run(variables["hiddenlayer_0/kernel"])
            session.run(train_op)
            moved = session.run(variables["hiddenlayer_0/batchnorm_0/moving_mean"])
    close(moved, 0.5 * np.maximum(X @ kernel, 0).mean(0), rtol=1e-5, atol=1e-6)


def test_layer_norm():
    y, v = evaluate(lambda x: layer_norm(x, "ln"), X)
    mean, variance = X.mean(1, keepdims=True), X.var(1, keepdims=True)
    expected = v["ln/gamma"] * (X - mean) / np.sqrt(variance + 1e-6) + v["ln/beta"]
    close(y, expected, rtol=1e-4, atol=1e-5)


def test_hidden_layers_are_those_of_numpy():
    y, v = evaluate(lambda x: layers.dnn_logits(x, (5, 3), 2, activation="tanh"), X)
    close(y, mlp(X, v, "", 2, np.tanh), rtol=1e-4, atol=1e-5)


def test_residual_layers_add_their_input():
    y, v = evaluate(lambda x: layers.hidden_layers(x, (4, 3), residual=True), X)
    one = X + np.maximum(X @ v["hiddenlayer_0/kernel"] + v["hiddenlayer_0/bias"], 0)
    two = np.maximum(one @ v["hiddenlayer_1/kernel"] + v["hiddenlayer_1/bias"], 0)
    close(y, two + one @ v["hiddenlayer_1/projection/kernel"], rtol=1e-4, atol=1e-5)
    assert "hiddenlayer_0/projection/kernel" not in v


def test_dropout_keeps_the_sum_and_is_of_training_alone():
    ones = np.ones((2000, 4), np.float32)

    def build(training):
        def layer(x):
            return layers.hidden_layers(x, (3,), dropout=0.25, training=training)

        return layer

    kept, v = evaluate(build(True), ones)
    full, _ = evaluate(build(False), ones)
    close(full, mlp(ones, v, "", 1), rtol=1e-5, atol=1e-6)
    positive = full[0] > 0
    ratio = kept[:, positive] / full[:, positive]
    close(np.unique(np.round(ratio, 3)), [0, 1.333])
    assert ratio.mean() == pytest.approx(1, abs=0.05)


def test_regularizers_by_hand():
    penalty = make_regularizer(Regularizer(l1=0.1, l2=0.01))
    assert float(penalty(tf.constant([3.0, -1.0]))) == pytest.approx(0.5)
    with tf.Graph().as_default():
        layers.dnn_logits(tf.constant(X), (5, 3), 2, regularizer=Regularizer(l2=0.1))
        losses = tf.compat.v1.losses.get_regularization_losses()
    assert len(losses) == 2  # of the two hidden layers


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"activation": "rleu"},
         "activation: got 'rleu', expected an activation. Did you mean 'relu'?"),
        ({"activation": "maxout"},
         "activation: got 'maxout', expected an activation. Use one of: "
         f"{', '.join(ACTIVATIONS)}."),
        ({"regularizer": {}}, "regularizer: got {}, set l1, l2 or both above 0, or remove the "
                              "regularizer"),
        ({"initializer": "glorot"}, "initializer: got 'glorot', expected zeros, orthogonal, "
         "identity, glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform, "
         "lecun_normal, {constant: number}, {normal: {stddev}}, {truncated_normal: {stddev}}, "
         "{uniform: {min, max}}, {orthogonal: factor}, {identity: factor} or "
         "{variance_scaling: {scale, mode, distribution}}"),
    ],
)  # fmt: skip
def test_what_a_wrong_option_is_told(document, params, message):
    with pytest.raises(ek.ConfigError) as error:
        MODELS["dnn"](feature_specs.parse(document), params)
    assert str(error.value) == f"model DNNModel: {message}"


def test_two_normalizations_are_one_too_many():
    with pytest.raises(
        pydantic.ValidationError,
        match=r"batch_norm and layer_norm cannot be combined\. Choose one\.",
    ):
        DNNParams(batch_norm=True, layer_norm=True)


def test_variables_of_the_default_are_those_of_before(document):
    with tf.Graph().as_default():
        layers.dnn_logits(tf.constant(X), (5,), 2)
        names = {v.op.name for v in tf.compat.v1.global_variables()}
    assert names == {
        "hiddenlayer_0/kernel", "hiddenlayer_0/bias", "logits/kernel", "logits/bias",
    }  # fmt: skip
