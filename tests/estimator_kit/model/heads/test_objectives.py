"""Losses, metrics and predictions against values by hand, NumPy and TensorFlow's own heads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.heads import make_heads, score_bins
from estimator_kit.model.heads.base import Batch


def make(objective: dict, label: dict):
    document: dict = {
        "features": {"x": {"dtype": "float32"}, "user": {"dtype": "string"}},
        "ignored": [] if "group_by" in objective else ["user"],
        "columns": {"x": {"numeric": "x"}},
        "groups": {"deep": ["x"]},
        "labels": {"y": label},
        "objectives": {"y": objective},
    }
    if "event" in objective:
        document["features"][objective["event"]] = {"dtype": "int64"}
    if "delayed_feedback" in (objective.get("loss") or ()):
        waited = objective["loss"]["delayed_feedback"]["elapsed"]
        document["features"][waited] = {"dtype": "float32"}
    if "items" in objective:  # A catalogue of 20 items.
        items = objective["items"]
        document["features"]["item"] = {"dtype": label["dtype"], "shape": "variable"}
        kind = "identity" if label["dtype"] == "int64" else "hash_bucket"
        document["columns"][items] = {kind: "item", "size": 20, "sequence": True}
        document["columns"]["item_hot"] = {"indicator": items}
        document["groups"]["steps"] = ["item_hot"]
    return make_heads(feature_specs.parse(document))["y"]


BINARY = ({"head": "binary"}, {"dtype": "int64"})
THREE = ({"head": "multi_class", "num_classes": 3}, {"dtype": "int64"})
NUMBER = ({"head": "regression"}, {"dtype": "float32"})


def evaluate(objective, batches, truth=None, groups=None):
    """Metrics of (logits, labels, weights) batches, streamed; truth and groups a batch each."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        logits = tf.compat.v1.placeholder(tf.float32, [None, objective.logits_dimension])
        width = objective.config.width
        labels = tf.compat.v1.placeholder(
            objective.label.dtype if width == 1 else tf.float32,
            [None] if width == 1 else [None, width],
        )
        weights = tf.compat.v1.placeholder(tf.float32, [None])
        known = tf.compat.v1.placeholder(tf.float32, [None]) if truth is not None else None
        group = tf.compat.v1.placeholder(tf.int64, [None]) if groups is not None else None
        metrics = objective.metrics(Batch(logits, labels, weights, known, group))
        values = {name: value for name, (value, _) in metrics.items()}
        updates = [update for _, update in metrics.values()]
        session.run(tf.compat.v1.local_variables_initializer())
        for i, (z, y, w) in enumerate(batches):
            feed = {logits: z, labels: y, weights: w}
            if known is not None:
                feed[known] = truth[i]
            if group is not None:
                feed[group] = groups[i]
            session.run(updates, feed)
        return session.run(values)


@pytest.mark.parametrize(
    ("kind", "logits", "labels", "expected"),
    [
        (BINARY, [[0.0], [0.0]], [1, 0], [math.log(2), math.log(2)]),
        (BINARY, [[2.0]], [1], [math.log(1 + math.exp(-2))]),
        (THREE, [[5.0, 5.0, 5.0]], [2], [math.log(3)]),
        (NUMBER, [[3.0]], [1.0], [4.0]),
    ],
)
def test_row_losses_by_hand(kind, logits, labels, expected):
    losses = make(*kind).row_losses(tf.constant(logits), tf.constant(labels))
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


def test_the_loss_is_a_mean_by_weight():
    objective = make(*NUMBER)
    logits, labels = tf.constant([[1.0], [3.0], [9.0]]), tf.constant([0.0, 0.0, 0.0])
    loss = objective.loss(logits, labels, tf.constant([1.0, 0.5, 0.0]))
    assert float(loss) == pytest.approx((1 * 1 + 0.5 * 9) / 1.5)
    assert float(objective.loss(logits, labels, tf.zeros(3))) == 0.0


def random_rows(rng, count):
    logits = rng.normal(0, 2, (count, 1)).astype("f")
    labels = (rng.random(count) < 1 / (1 + np.exp(-logits[:, 0]))).astype(np.int64)
    return logits, labels, rng.integers(0, 3, count).astype("f")


def auc_by_pairs(scores, labels, weights):
    wins = total = 0.0
    for s, w in zip(scores[labels == 1], weights[labels == 1]):
        other, v = scores[labels == 0], weights[labels == 0]
        wins += w * np.sum(v * ((s > other) + 0.5 * (s == other)))
        total += w * np.sum(v)
    return wins / total


def test_binary_metrics_equal_numpy_however_the_rows_are_batched():
    z, y, w = random_rows(np.random.default_rng(3), 400)
    objective = make(*BINARY)
    whole = evaluate(objective, [(z, y, w)])
    pieces = evaluate(objective, [(z[i : i + 37], y[i : i + 37], w[i : i + 37])
                                  for i in range(0, 400, 37)])  # fmt: skip
    scores, p = z[:, 0], 1 / (1 + np.exp(-z[:, 0].astype(float)))
    hit = scores > 0
    expected = {
        "loss": np.average(-np.log(np.where(y == 1, p, 1 - p)), weights=w),
        "auc": auc_by_pairs(scores, y, w),
        "accuracy": np.average(hit == y, weights=w),
        "precision": w[hit & (y == 1)].sum() / w[hit].sum(),
        "recall": w[hit & (y == 1)].sum() / w[y == 1].sum(),
        "f1": 2 * w[hit & (y == 1)].sum() / (w[hit].sum() + w[y == 1].sum()),
        "label_mean": np.average(y, weights=w),
        "prediction_mean": np.average(p, weights=w),
        "accuracy_baseline": max(np.average(y, weights=w), 1 - np.average(y, weights=w)),
        "calibration": np.average(p, weights=w) / np.average(y, weights=w),
        "weight_sum": w.sum(),
    }
    for name, value in expected.items():
        assert whole[name] == pytest.approx(value, abs=2e-4 if name == "auc" else 1e-6), name
        assert pieces[name] == pytest.approx(whole[name], abs=1e-9 if name == "auc" else 1e-6)
    assert set(whole) == {*expected, "auc_precision_recall"}


def test_metrics_equal_those_of_tensorflows_heads():
    z, y, w = random_rows(np.random.default_rng(5), 300)
    head = tf.estimator.BinaryClassHead(weight_column="w")
    metrics = head.metrics()
    head.update_metrics(
        metrics, {"w": tf.constant(w[:, None])}, tf.constant(z), tf.constant(y[:, None])
    )
    theirs = {name: float(metric.result()) for name, metric in metrics.items()}
    ours = evaluate(make(*BINARY), [(z, y, w)])
    for ours_name, theirs_name in {
        "accuracy": "accuracy", "precision": "precision", "recall": "recall",
        "loss": "average_loss", "label_mean": "label/mean", "prediction_mean": "prediction/mean",
        "accuracy_baseline": "accuracy_baseline",
    }.items():  # fmt: skip
        assert ours[ours_name] == pytest.approx(theirs[theirs_name], abs=1e-5), ours_name
    # TensorFlow's AUC interpolates between 200 thresholds. The kit's AUC uses the ranking.
    assert ours["auc"] == pytest.approx(theirs["auc"], abs=5e-3)


def test_auc_by_hand():
    # Positives score 1 and 3, the negative 2: one of two pairs is right.
    counts = tf.constant([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    assert float(score_bins.area_under_roc(counts)) == 0.5
    # Precision 1 at recall 1/2, then 2/3 at recall 1.
    assert float(score_bins.average_precision(counts)) == pytest.approx((1 + 2 / 3) / 2)


def test_large_logits_and_those_near_zero_count_right():
    objective = make({"head": "binary", "metrics": ["confusion"]}, {"dtype": "int64"})
    z = np.array([[-99.0], [99.0], [0.0], [1e-9]], "f")
    got = evaluate(objective, [(z, np.array([0, 1, 0, 1]), np.ones(4))])
    counts = ("true_positives", "false_positives", "false_negatives", "true_negatives")
    assert [got[name] for name in counts] == [2, 0, 0, 2]
    assert got["auc"] == 1.0


def test_metrics_without_rows_of_a_class_are_undefined_not_perfect():
    values = evaluate(make(*BINARY), [(np.zeros((3, 1), "f"), np.zeros(3, "i8"), np.ones(3))])
    assert math.isnan(values["auc"]) and math.isnan(values["recall"])
    nothing = evaluate(make(*BINARY), [(np.zeros((1, 1), "f"), np.zeros(1, "i8"), np.zeros(1))])
    assert math.isnan(nothing["accuracy"]) and math.isnan(nothing["loss"])


def test_the_true_probabilities_give_the_best_auc_and_loss():
    y, p = np.array([1, 0, 1, 0]), np.array([0.9, 0.2, 0.4, 0.6], "f")
    objective = make({"head": "binary"}, {"dtype": "int64"})
    values = evaluate(objective, [(np.zeros((4, 1), "f"), y, np.ones(4))], truth=[p])
    assert values["bayes_auc"] == 0.75
    expected = -np.mean(np.log([0.9, 0.8, 0.4, 0.4]))
    assert values["bayes_loss"] == pytest.approx(expected, abs=1e-6)


def test_multi_class_and_regression_metrics():
    z = np.array([[3, 1, 0], [0, 1, 3], [0, 2, 1]], "f")
    values = evaluate(make(*THREE), [(z, np.array([0, 0, 1]), np.array([1.0, 1.0, 2.0]))])
    assert values["accuracy"] == pytest.approx(3 / 4)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    expected = -(log_p[0, 0] + log_p[1, 0] + 2 * log_p[2, 1]) / 4
    assert values["loss"] == pytest.approx(expected, abs=1e-6)
    values = evaluate(
        make(*NUMBER), [(np.array([[1.0], [4.0]], "f"), np.array([0.0, 6.0], "f"), np.ones(2))]
    )
    assert values["loss"] == pytest.approx((1 + 4) / 2)
    assert values["root_mean_squared_error"] == pytest.approx(math.sqrt(2.5))
    assert values["mean_absolute_error"] == pytest.approx(1.5)
    assert values["label_mean"] == pytest.approx(3) and values["prediction_mean"] == 2.5


def test_predictions_carry_the_names_of_canned_heads():
    named = {"dtype": "string", "vocabulary": ["no", "yes"]}
    sure = make({"head": "binary"}, named).predictions(tf.constant([[20.0]]))["probabilities"]
    np.testing.assert_allclose(sure, [[1 / (1 + math.exp(20)), 1]], rtol=1e-6)
    got = make({"head": "binary"}, named).predictions(tf.constant([[0.0], [2.0]]))
    sigmoid = 1 / (1 + math.exp(-2))
    np.testing.assert_allclose(got["logistic"], [[0.5], [sigmoid]], rtol=1e-6)
    np.testing.assert_allclose(got["probabilities"], [[0.5, 0.5], [1 - sigmoid, sigmoid]], 1e-5)
    assert got["class_ids"].numpy().tolist() == [[0], [1]]
    assert got["classes"].numpy().tolist() == [[b"no"], [b"yes"]]
    got = make(*THREE).predictions(tf.constant([[0.0, 3.0, 1.0]]))
    assert got["class_ids"].numpy().tolist() == [[1]]
    assert got["classes"].numpy().tolist() == [[b"1"]]
    assert float(tf.reduce_sum(got["probabilities"])) == pytest.approx(1)
    got = make(*NUMBER).predictions(tf.constant([[7.0]]))
    assert {name: value.numpy().tolist() for name, value in got.items()} == {"predictions": [[7]]}
