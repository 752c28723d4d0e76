"""Losses, compared with values by hand, NumPy, TensorFlow and Keras."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.model.heads import losses
from tests.estimator_kit.model.heads.test_objectives import evaluate, make

RNG = np.random.default_rng(7)
Z = RNG.normal(0, 3, 50).astype("f")
Y = RNG.integers(0, 2, 50).astype("f")
NUMBERS = RNG.normal(0, 3, 50).astype("f")
MANY = RNG.normal(0, 2, (50, 4)).astype("f")
IDS = RNG.integers(0, 4, 50)
VECTORS = RNG.normal(0, 2, (50, 4)).astype("f")


def sigmoid(z):
    return 1 / (1 + np.exp(-z.astype(float)))


P = np.where(Y == 1, sigmoid(Z), sigmoid(-Z))
MARGIN = np.where(Y == 1, Z, -Z).astype(float)
SOFTMAX = np.exp(MANY.astype(float)) / np.exp(MANY.astype(float)).sum(axis=1, keepdims=True)
OWN = SOFTMAX[np.arange(50), IDS]
D = Z.astype(float) - NUMBERS


def made(loss, head="regression", **more):
    dtype = "float32" if head in ("binary", "regression") else "int64"
    return make({"head": head, "loss": loss, **more}, {"dtype": dtype})


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("sigmoid_cross_entropy", -np.log(P)),
        ({"sigmoid_cross_entropy": {"label_smoothing": 0.2}},
         -0.9 * np.log(P) - 0.1 * np.log(1 - P)),
        ({"focal": {"gamma": 2}}, -((1 - P) ** 2) * np.log(P)),
        ({"focal": {"gamma": 0.5}}, -np.sqrt(1 - P) * np.log(P)),
        ({"focal": {"gamma": 0}}, -np.log(P)),
        ("log_loss", -np.log(P + 1e-7)),
        ("hinge", np.maximum(0, 1 - MARGIN)),
        ("exponential", np.exp(-MARGIN)),
        ("squared", (1 - P) ** 2),
        ("absolute", 1 - P),
    ],
)  # fmt: skip
def test_binary_losses_equal_numpy(loss, expected):
    rows = made(loss, "binary").row_losses(tf.constant(Z[:, None]), tf.constant(Y))
    np.testing.assert_allclose(rows, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("softmax_cross_entropy", -np.log(OWN)),
        ({"softmax_cross_entropy": {"label_smoothing": 0.2}},
         -0.8 * np.log(OWN) - 0.2 * np.log(SOFTMAX).mean(axis=1)),
        ("focal", -((1 - OWN) ** 2) * np.log(OWN)),
    ],
)  # fmt: skip
def test_multi_class_losses_equal_numpy(loss, expected):
    objective = made(loss, "multi_class", num_classes=4)
    rows = objective.row_losses(tf.constant(MANY), tf.constant(IDS))
    np.testing.assert_allclose(rows, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("squared", D**2),
        ("absolute", abs(D)),
        ("huber", np.where(abs(D) < 1, D**2 / 2, abs(D) - 0.5)),
        ({"huber": {"delta": 2.5}}, np.where(abs(D) < 2.5, D**2 / 2, 2.5 * (abs(D) - 1.25))),
        ("log_cosh", np.log(np.cosh(D))),
        ("pinball", abs(D) / 2),
        ({"pinball": {"quantile": 0.9}}, np.where(D < 0, -0.9 * D, 0.1 * D)),
    ],
)  # fmt: skip
def test_regression_losses_equal_numpy(loss, expected):
    rows = made(loss).row_losses(tf.constant(Z[:, None]), tf.constant(NUMBERS))
    np.testing.assert_allclose(rows, expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda: losses.sigmoid_cross_entropy(tf.constant(0.0), tf.constant(1.0)), 0.6931),
        (lambda: losses.sigmoid_focal(tf.constant(0.0), tf.constant(1.0)), 0.1733),
        (lambda: losses.log_loss(tf.constant(0.5), tf.constant(1.0)), 0.6931),
        (lambda: losses.hinge(tf.constant(0.25), tf.constant(1.0)), 0.75),
        (lambda: losses.exponential(tf.constant(1.0), tf.constant(0.0)), 2.7183),
        (lambda: losses.softmax_cross_entropy(tf.ones([1, 3]), tf.constant([2])), 1.0986),
        (lambda: losses.softmax_focal(tf.ones([1, 3]), tf.constant([2])), 0.4883),
        (lambda: losses.squared(tf.constant(3.0), tf.constant(1.0)), 4),
        (lambda: losses.absolute(tf.constant(3.0), tf.constant(1.0)), 2),
        (lambda: losses.huber(tf.constant(3.0), tf.constant(1.0)), 1.5),
        (lambda: losses.log_cosh(tf.constant(3.0), tf.constant(1.0)), 1.3250),
        (lambda: losses.pinball(tf.constant(1.0), tf.constant(3.0), quantile=0.9), 1.8),
        (lambda: losses.poisson(tf.constant(math.log(2)), tf.constant(1.0)), 1.3069),
        (lambda: losses.cosine(tf.constant([[1.0, 0.0]]), tf.constant([[1.0, 1.0]])), 0.2929),
        (lambda: losses.with_positive_penalty(tf.constant(math.log(2)), tf.constant(1.0), 3),
         2.0794),
    ],
)  # fmt: skip
def test_the_numbers_of_the_docstrings(value, expected):
    assert float(tf.squeeze(value())) == pytest.approx(expected, abs=5e-5)


def test_losses_equal_those_of_tensorflow():
    v1 = tf.compat.v1.losses
    none = v1.Reduction.NONE
    targets = np.eye(4, dtype="f")[IDS]
    counts = abs(np.round(NUMBERS))
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (MANY, VECTORS)]
    pairs = [
        (losses.sigmoid_cross_entropy(Z, Y, label_smoothing=0.2),
         v1.sigmoid_cross_entropy(Y, Z, label_smoothing=0.2, reduction=none)),
        (losses.softmax_cross_entropy(tf.constant(MANY), IDS, label_smoothing=0.2),
         v1.softmax_cross_entropy(targets, MANY, label_smoothing=0.2, reduction=none)),
        (losses.log_loss(tf.sigmoid(Z), Y), v1.log_loss(Y, tf.sigmoid(Z), reduction=none)),
        (losses.hinge(Z, Y), v1.hinge_loss(Y, Z, reduction=none)),
        (losses.squared(Z, NUMBERS), v1.mean_squared_error(NUMBERS, Z, reduction=none)),
        (losses.absolute(Z, NUMBERS), v1.absolute_difference(NUMBERS, Z, reduction=none)),
        (losses.huber(Z, NUMBERS, delta=2.0),
         v1.huber_loss(NUMBERS, Z, delta=2.0, reduction=none)),
        (losses.poisson(Z, counts, full=True), tf.nn.log_poisson_loss(counts, Z, True)),
        (losses.cosine(MANY, VECTORS),
         v1.cosine_distance(unit[1], unit[0], axis=1, reduction=none)[:, 0]),
        (losses.with_positive_penalty(losses.sigmoid_cross_entropy(Z, Y), Y, 3.0),
         tf.nn.weighted_cross_entropy_with_logits(Y, Z, 3.0)),
    ]  # fmt: skip
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_losses_equal_those_of_keras():
    keras = tf.keras.losses
    y, z = Y[:, None], Z[:, None]
    pairs = [
        (
            losses.sigmoid_focal(Z, Y, gamma=1.5),
            keras.binary_focal_crossentropy(y, z, gamma=1.5, from_logits=True),
        ),
        (losses.log_cosh(Z, NUMBERS), keras.log_cosh(NUMBERS[:, None], z)),
        (losses.huber(Z, NUMBERS, delta=0.5), keras.huber(NUMBERS[:, None], z, delta=0.5)),
        (losses.hinge(Z, Y), keras.hinge(y, z)),
        (losses.cosine(MANY, VECTORS), 1 + keras.cosine_similarity(VECTORS, MANY)),
        (losses.poisson(Z, Y), keras.poisson(y, tf.exp(z))),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_losses_have_gradients_where_the_probability_rounds_to_one(gamma):
    z = tf.constant([-200.0, -40.0, 0.0, 40.0, 200.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(z)
        binary = losses.sigmoid_focal(z, tf.ones(5), gamma=gamma)
        logits = tf.stack([z, tf.zeros(5)], axis=1)
        several = losses.softmax_focal(logits, tf.zeros(5, tf.int64), gamma=gamma)
    # Two classes by a softmax of (z, 0) are one logit z.
    np.testing.assert_allclose(binary, several, rtol=1e-5, atol=1e-6)
    ours, theirs = tape.gradient(binary, z), tape.gradient(several, z)
    assert np.isfinite(ours).all()
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_penalties_are_factors_on_the_losses_of_a_class():
    z, y = tf.zeros([2, 1]), tf.constant([1.0, 0.0])
    rows = made("focal", "binary", positive_penalty=4).row_losses(z, y)
    np.testing.assert_allclose(rows, [4 * math.log(2) / 4, math.log(2) / 4], rtol=1e-6)
    objective = made("softmax_cross_entropy", "multi_class", num_classes=3,
                     class_penalties=[1, 2, 5])  # fmt: skip
    rows = objective.row_losses(tf.zeros([3, 3]), tf.constant([0, 1, 2], tf.int64))
    np.testing.assert_allclose(rows, np.log(3) * np.array([1, 2, 5]), rtol=1e-6)
    # A penalty is not a weight: the mean divides by 3 rows.
    loss = objective.loss(tf.zeros([3, 3]), tf.constant([0, 1, 2], tf.int64), tf.ones(3))
    assert float(loss) == pytest.approx(math.log(3) * 8 / 3)


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("mean", 2.5 / 1.5), ("sum", 2.5), ("sum_over_batch_size", 2.5 / 3),
     ("sum_over_nonzero_weights", 2.5 / 2)],
)  # fmt: skip
def test_reductions(reduction, expected):
    objective = made("absolute", reduction=reduction)
    z, y = np.array([[1], [3], [5]], "f"), np.zeros(3, "f")
    w = np.array([1, 0.5, 0], "f")
    assert float(objective.loss(tf.constant(z), tf.constant(y), tf.constant(w))) == (
        pytest.approx(expected)
    )
    assert float(objective.loss(tf.constant(z), tf.constant(y), tf.zeros(3))) == 0
    for size in (1, 2, 3):
        batches = [(z[i : i + size], y[i : i + size], w[i : i + size]) for i in range(0, 3, size)]
        assert evaluate(objective, batches)["loss"] == pytest.approx(expected)
    theirs = {"mean": "weighted_mean", "sum": "weighted_sum",
              "sum_over_batch_size": "weighted_sum_over_batch_size",
              "sum_over_nonzero_weights": "weighted_sum_by_nonzero_weights"}[reduction]  # fmt: skip
    v1 = tf.compat.v1.losses.absolute_difference(y, z[:, 0], w, reduction=theirs)
    assert float(v1) == pytest.approx(expected)


def gradient_of(function, vectors):
    variable = tf.Variable(vectors)
    with tf.GradientTape() as tape:
        value = function(tf.convert_to_tensor(variable))
    return tf.convert_to_tensor(tape.gradient(value, variable)).numpy()


def test_unit_vectors_have_a_limited_gradient():
    rng = np.random.default_rng(9)
    vectors = rng.normal(0, 1, (40, 3)).astype("f")
    vectors[:10] *= 0.2 / np.linalg.norm(vectors[:10], axis=1, keepdims=True)
    vectors[10:] *= 0.01
    vectors[-1] = 0
    normalized = tf.math.l2_normalize(vectors, axis=1)
    np.testing.assert_array_equal(losses.unit_vectors(tf.constant(vectors)), normalized)
    up = rng.normal(0, 1, vectors.shape).astype("f")
    theirs = gradient_of(lambda v: tf.reduce_sum(tf.math.l2_normalize(v, axis=1) * up), vectors)
    ours = gradient_of(lambda v: tf.reduce_sum(losses.unit_vectors(v) * up), vectors)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(ours[:10], theirs[:10], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours[:-1], (theirs * np.minimum(10 * lengths, 1))[:-1], atol=1e-4)
    np.testing.assert_allclose(ours[-1], 10 * up[-1], rtol=1e-6)
    assert abs(theirs[-1]).max() > 1e5


def test_the_gradient_of_a_cosine_of_zeros():
    targets = np.array([[3, 4], [0, 0]], "f")
    gradient = gradient_of(lambda v: losses.cosine(v, targets), np.zeros((2, 2), "f"))
    np.testing.assert_allclose(gradient, [[-6, -8], [0, 0]], rtol=1e-6)
