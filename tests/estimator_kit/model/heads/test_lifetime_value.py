"""The zero-inflated lognormal head, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model.heads import losses
from estimator_kit.models import MODELS
from tests.estimator_kit.model.heads.test_objectives import evaluate, make

RNG = np.random.default_rng(3)
LABEL = {"dtype": "float32"}


def parts_of(z):
    """P(y > 0), and the mean and the standard deviation of log y."""
    return 1 / (1 + np.exp(-z[:, 0])), z[:, 1], np.maximum(np.log1p(np.exp(z[:, 2])), 1e-7**0.5)


def by_numpy(z, y):
    p, m, sigma = parts_of(z.astype(float))
    positive = np.where(y > 0, y, 1).astype(float)
    normal = -((np.log(positive) - m) ** 2) / (2 * sigma**2) - np.log(sigma * np.sqrt(2 * np.pi))
    return -np.where(y > 0, np.log(p) + normal - np.log(positive), np.log1p(-p))


def test_the_loss_is_the_likelihood_of_the_paper():
    z = RNG.normal(size=(50, 3)).astype("f")
    y = (RNG.lognormal(size=50) * (RNG.random(50) < 0.6)).astype("f")
    found = losses.zero_inflated_lognormal(tf.constant(z), tf.constant(y))
    np.testing.assert_allclose(found, by_numpy(z, y), rtol=1e-4, atol=1e-5)
    zeros = losses.zero_inflated_lognormal(tf.zeros([2, 3]), tf.constant([0.0, 1.0]))
    np.testing.assert_allclose(zeros, [0.6931, 1.2456], atol=5e-5)


def test_loss_and_gradient_are_finite_at_the_ends():
    z = tf.constant([[-90.0, 0, 0], [90, 0, 0], [0, 0, -90], [0, 20, 90]])
    y = tf.constant([0.0, 1e-30, 1.0, 1e30])
    with tf.GradientTape() as tape:
        tape.watch(z)
        loss = losses.zero_inflated_lognormal(z, y)
    assert np.isfinite(loss).all() and np.isfinite(tape.gradient(loss, z)).all()


def test_predictions_and_metrics():
    objective = make({"head": "ziln"}, LABEL)
    z = RNG.normal(size=(40, 3)).astype("f")
    y = (RNG.lognormal(size=40) * (RNG.random(40) < 0.6)).astype("f")
    w = RNG.integers(0, 3, 40).astype("f")
    p, m, sigma = parts_of(z)
    expected = p * np.exp(m + sigma**2 / 2)
    found = objective.predictions(tf.constant(z))
    np.testing.assert_allclose(found["predictions"][:, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(found["probability"][:, 0], p, rtol=1e-5)
    zeros = objective.predictions(tf.zeros([1, 3]))["predictions"]
    assert float(zeros[0, 0]) == pytest.approx(0.6358, abs=1e-4)
    assert set(objective.export_outputs(found)) == {"regress"}
    values = evaluate(objective, [(z[:15], y[:15], w[:15]), (z[15:], y[15:], w[15:])])
    assert values["loss"] == pytest.approx(np.average(by_numpy(z, y), weights=w), rel=1e-4)
    assert values["prediction_mean"] == pytest.approx(np.average(expected, weights=w), rel=1e-5)
    assert values["mean_absolute_error"] == pytest.approx(
        np.average(np.abs(expected - y), weights=w), rel=1e-5
    )


def test_a_draw_of_many_values_has_the_predicted_mean():
    """The formula of the expected value, without using it."""
    p, m, sigma = parts_of(np.array([[0.4, 0.2, -0.3]]))
    drawn = RNG.lognormal(m, sigma, 400_000) * (RNG.random(400_000) < p)
    objective = make({"head": "ziln"}, LABEL)
    found = objective.predictions(tf.constant([[0.4, 0.2, -0.3]]))["predictions"]
    assert float(found[0, 0]) == pytest.approx(drawn.mean(), rel=0.01)


def test_losses_that_may_be_negative_are_not_combined_by_uncertainty(document):
    document["labels"]["buy"] = {"dtype": "float32"}
    document["objectives"]["buy"] = {"head": "ziln"}
    with pytest.raises(ek.ConfigError) as error:
        MODELS["dnn"](feature_specs.parse(document), {"combine": "uncertainty"})
    assert str(error.value) == (
        "combine: uncertainty needs losses that are never negative, but the loss of objective "
        "'buy' may be. Use pcgrad or weights."
    )
