"""The survival head, compared with values by hand, NumPy, and all pairs of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.model.heads import judged_labels, row_metric, survival
from tests.estimator_kit.model.heads.test_objectives import evaluate, make

RNG = np.random.default_rng(8)
ENDS = [1.0, 2.0, 4.0, 8.0]
ENTRY = {"head": "survival", "event": "gone", "boundaries": ENDS}
LABEL = {"dtype": "float32"}


def drawn(count):
    z = RNG.normal(-0.5, 1, (count, 4)).astype("f")
    time = RNG.exponential(4, count).astype("f")
    seen = (RNG.random(count) < 0.6).astype("f")
    return z, np.stack([time, seen], axis=1), RNG.integers(0, 3, count).astype("f")


def watched_by_loop(y):
    """Intervals survived, and whether the event is in the next one: `make_surv_array` of the paper.

    https://github.com/MGensheimer/nnet-survival/blob/master/nnet_survival.py
    """
    breaks = np.array([0, *ENDS])
    middles = breaks[:-1] + 0.5 * np.diff(breaks)
    survived, ended = np.zeros((len(y), 4)), np.zeros((len(y), 4))
    for i, (time, seen) in enumerate(y):
        if seen:
            survived[i] = time >= breaks[1:]
            if time < breaks[-1]:
                ended[i, np.where(time < breaks[1:])[0][0]] = 1
        else:
            survived[i] = time >= middles
    return survived, ended


def loss_by_numpy(z, y):
    survived, ended = watched_by_loop(y)
    hazards = 1 / (1 + np.exp(-z.astype(float)))
    # The loss of the paper, with the probability of surviving each interval.
    likelihood = (1 + survived * (1 - hazards - 1)) * (1 - ended * (1 - hazards))
    return -np.log(likelihood).sum(axis=1)


def concordance_by_pairs(risk, survived, ended, weights):
    wins = total = 0.0
    for i in np.flatnonzero(ended):
        for j in range(len(risk)):
            if survived[j] > survived[i]:
                pair = weights[i] * weights[j]
                total += pair
                wins += pair * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
    return wins / total


def test_what_is_known_of_a_row():
    objective = make({**ENTRY, "boundaries": [10, 20]}, LABEL)
    y = [[0, 1], [10, 1], [15, 1], [20, 1], [99, 1], [4, 0], [5, 0], [12, 0], [15, 0], [99, 0]]
    survived, ended = objective.watched(tf.constant(y, tf.float32))
    assert survived.numpy().tolist() == [
        [0, 0], [1, 0], [1, 0], [1, 1], [1, 1], [0, 0], [1, 0], [1, 0], [1, 1], [1, 1],
    ]  # fmt: skip
    assert ended.numpy().tolist() == [[1, 0], [0, 1], [0, 1], *[[0, 0]] * 7]
    losses = objective.row_losses(tf.zeros([10, 2]), tf.constant(y, tf.float32))
    assert losses.numpy()[[2, 7]].tolist() == pytest.approx([1.3863, 0.6931], abs=5e-5)


def test_the_gate_counts_the_same_intervals():
    _, y, _ = drawn(200)
    y[:8, 0] = [0, 0.5, 1, 1.5, 2, 3, 8, 9]
    objective = make(ENTRY, LABEL)
    survived, ended = (np.sum(part, axis=1) for part in objective.watched(tf.constant(y)))
    found = judged_labels(objective.config, y)
    assert found.tolist() == np.stack([survived, ended], axis=1).tolist()


def test_predictions_by_hand():
    objective = make({**ENTRY, "boundaries": [10, 20]}, LABEL)
    logits = tf.constant([[0.0, 0.0], [-90, -90], [90, 0]])
    found = objective.predictions(logits)
    np.testing.assert_allclose(
        found["survival_probabilities"], [[0.5, 0.25], [1, 1], [0, 0]], atol=1e-30
    )
    np.testing.assert_allclose(found["risk"], [[0.75], [0], [1]], atol=1e-6)
    np.testing.assert_allclose(found["predictions"], [[11.25], [20], [5]], rtol=1e-6)
    assert set(objective.export_outputs(found)) == {"regress"}
    # A rare event has a small risk, not 0: 1 - (1 - p) ** 2 is about 2 exp(-20).
    rare = objective.predictions(tf.constant([[-20.0, -20.0]]))["risk"]
    np.testing.assert_allclose(rare, [[2 * math.exp(-20)]], rtol=1e-6)


def test_loss_and_gradient_are_finite_at_the_ends():
    objective = make({**ENTRY, "boundaries": [10, 20]}, LABEL)
    z = tf.constant([[90.0, 90], [-90, -90], [90, -90]])
    with tf.GradientTape() as tape:
        tape.watch(z)
        losses = objective.row_losses(z, tf.constant([[99.0, 0], [3, 1], [15, 1]]))
    assert losses.numpy().tolist() == pytest.approx([180, 90, 180])
    assert np.isfinite(tape.gradient(losses, z)).all()


def test_metrics_equal_numpy_however_the_rows_are_batched():
    z, y, w = drawn(300)
    objective = make(ENTRY, LABEL)
    values = evaluate(objective, [(z[:70], y[:70], w[:70]), (z[70:], y[70:], w[70:])])
    survived, ended = watched_by_loop(y)
    hazards = 1 / (1 + np.exp(-z.astype(float)))
    expected = np.average((hazards * (survived + ended)).sum(axis=1), weights=w)
    seen = np.average(ended.sum(axis=1), weights=w)
    risk = 1 - np.prod(1 - hazards, axis=1)
    exact = concordance_by_pairs(risk, survived.sum(axis=1), ended.sum(axis=1), w)
    assert values == {
        "loss": pytest.approx(np.average(loss_by_numpy(z, y), weights=w), rel=1e-5),
        "weight_sum": w.sum(),
        "label_mean": pytest.approx(seen),
        "prediction_mean": pytest.approx(expected, rel=1e-5),
        "calibration": pytest.approx(expected / seen, rel=1e-5),
        "concordance": pytest.approx(exact, rel=1e-9),
    }


def test_the_concordance_of_the_docstring():
    """One event in the first interval, and two rows that survive it."""
    z = np.array([[0.0] * 4, [1.0] * 4, [-1.0] * 4], "f")
    y = np.array([[0.5, 1], [9, 0], [3, 1]], "f")
    objective = make(ENTRY, LABEL)
    assert evaluate(objective, [(z[:2], y[:2], np.ones(2))])["concordance"] == 0
    # The third row's own event, in the third interval, is a pair with the second row.
    assert evaluate(objective, [(z, y, np.ones(3))])["concordance"] == pytest.approx(1 / 3)
    assert evaluate(objective, [(z, y, np.array([1, 1, 0]))])["concordance"] == 0
    equal = np.zeros((3, 4), "f")
    assert evaluate(objective, [(equal, y, np.ones(3))])["concordance"] == 0.5
    assert np.isnan(evaluate(objective, [(z[1:2], y[1:2], np.ones(1))])["concordance"])


def test_many_risks_are_joined_within_the_bound(monkeypatch):
    """20,000 rows in 4,096 bins, against all pairs."""
    monkeypatch.setattr(survival, "_SUMS", 0)
    monkeypatch.setattr(survival, "_LEAST_BINS", 2**12)
    z, y, w = drawn(20_000)
    found = evaluate(make(ENTRY, LABEL), [(z[i::9], y[i::9], w[i::9]) for i in range(9)])
    labels = judged_labels(make(ENTRY, LABEL).config, y)
    expected = row_metric("concordance", "survival", labels, z, w).value()
    assert found["concordance"] == pytest.approx(expected, abs=1e-3)
    assert found["concordance"] != expected


def test_small_risks_keep_their_order():
    """1 - S would round 1e-9 and 1e-8 to the same float32."""
    z = np.log(np.array([[1e-8] * 4, [1e-9] * 4], "f"))
    values = evaluate(make(ENTRY, LABEL), [(z, np.array([[0.5, 1], [9, 0]]), np.ones(2))])
    assert values["concordance"] == 1


def test_hazards_that_are_learned_are_those_of_the_data():
    """The best logits are the share of events among the rows that enter an interval."""
    time = RNG.exponential(3, 40_000).astype("f")
    end = RNG.uniform(0, 10, 40_000).astype("f")
    y = np.stack([np.minimum(time, end), time <= end], axis=1).astype("f")
    objective = make(ENTRY, LABEL)
    survived, ended = (part.numpy() for part in objective.watched(tf.constant(y)))
    hazards = ended.sum(axis=0) / (ended + survived).sum(axis=0)
    z = tf.Variable(np.log(hazards / (1 - hazards))[np.newaxis].astype("f"))
    with tf.GradientTape() as tape:
        loss = objective.loss(tf.repeat(z, len(y), axis=0), tf.constant(y), tf.ones(len(y)))
    assert np.abs(tape.gradient(loss, z)).max() < 1e-6
    found = objective.predictions(z)["survival_probabilities"][0]
    np.testing.assert_allclose(found, np.exp(-np.array(ENDS) / 3), atol=0.02)
