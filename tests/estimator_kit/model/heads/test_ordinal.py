"""The ordinal head, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.model.heads.multi_class import class_log_probabilities
from tests.estimator_kit.model.heads.test_objectives import evaluate, make

RNG = np.random.default_rng(5)
ENTRY = {"head": "ordinal", "num_classes": 4}
LABEL = {"dtype": "int64"}


def by_numpy(logits):
    """P(y = k) as differences of P(y > k)."""
    falls = np.column_stack([logits[:, 0], -np.log1p(np.exp(logits[:, 1:]))])
    above = 1 / (1 + np.exp(-np.cumsum(falls.astype(float), axis=1)))
    ones, zeros = np.ones((len(logits), 1)), np.zeros((len(logits), 1))
    return np.hstack([ones, above]) - np.hstack([above, zeros])


def test_probabilities_are_differences_of_cumulative_ones():
    logits = RNG.normal(size=(60, 3)).astype("f")
    found = np.exp(class_log_probabilities(tf.constant(logits)))
    np.testing.assert_allclose(found, by_numpy(logits), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    example = np.exp(class_log_probabilities(tf.zeros([1, 2])))
    np.testing.assert_allclose(example, [[1 / 2, 1 / 6, 1 / 3]], rtol=1e-6)


def test_large_logits_have_a_finite_loss_and_gradient():
    logits = tf.constant([[80.0, 80, -80], [-80, -80, 80]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        found = class_log_probabilities(logits)
    assert np.isfinite(found).all() and np.isfinite(tape.gradient(found, logits)).all()


def test_loss_predictions_and_metrics():
    objective = make({**ENTRY, "class_penalties": [1, 2, 1, 1]}, LABEL)
    z = RNG.normal(size=(50, 3)).astype("f")
    y = RNG.integers(0, 4, 50)
    w = RNG.integers(0, 3, 50).astype("f")
    p = by_numpy(z)
    rows = -np.log(p[np.arange(50), y]) * np.where(y == 1, 2, 1)
    values = evaluate(objective, [(z[:20], y[:20], w[:20]), (z[20:], y[20:], w[20:])])
    assert values["loss"] == pytest.approx(np.average(rows, weights=w), rel=1e-5)
    guesses = p.argmax(axis=1)
    assert values["accuracy"] == pytest.approx(np.average(guesses == y, weights=w))
    assert values["mean_absolute_error"] == pytest.approx(
        np.average(np.abs(guesses - y), weights=w)
    )
    found = objective.predictions(tf.constant(z))
    np.testing.assert_array_equal(found["logits"], z)
    np.testing.assert_allclose(found["probabilities"], p, rtol=1e-4, atol=1e-6)
    assert found["class_ids"].numpy()[:, 0].tolist() == guesses.tolist()
    outputs = objective.export_outputs(found)
    assert outputs["classify"].classes[0].numpy().tolist() == [b"0", b"1", b"2", b"3"]


def test_the_log_loss_of_the_docstring():
    objective = make({"head": "ordinal", "num_classes": 3}, LABEL)
    rows = objective.row_losses(tf.zeros([1, 2]), tf.constant([1], tf.int64))
    assert float(rows[0]) == pytest.approx(np.log(6), rel=1e-6)
