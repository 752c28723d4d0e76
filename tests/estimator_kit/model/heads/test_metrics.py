"""Metrics against scikit-learn and NumPy, the same however the rows are batched."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

from estimator_kit.model.heads import group_metrics
from feature_specs.heads.binary import GAUC
from feature_specs.heads.metrics import MetricChoice
from tests.estimator_kit.model.heads.test_objectives import evaluate, make

RNG = np.random.default_rng(23)
ROWS = 500
W = RNG.integers(0, 3, ROWS).astype("f")
# Multiples of 1/8, with many equal scores.
Z = (RNG.integers(-30, 31, ROWS) / 8).astype("f")
Y = (RNG.random(ROWS) < 1 / (1 + np.exp(-Z))).astype(np.int64)
P = 1 / (1 + np.exp(-Z.astype(float)))


def streamed(objective, z, y, w=W, groups=None):
    """The metrics, after a check that batches of 37, 500 and shuffled rows give the same."""
    results = []
    order = RNG.permutation(len(z))
    for size, o in ((len(z), slice(None)), (37, slice(None)), (101, order)):
        parts = [slice(i, i + size) for i in range(0, len(z), size)]
        batches = [(z[o][i], y[o][i], w[o][i]) for i in parts]
        keys = None if groups is None else [groups[o][i] for i in parts]
        results.append(evaluate(objective, batches, groups=keys))
    for other in results[1:]:
        assert set(other) == set(results[0])
        for name, value in results[0].items():
            assert other[name] == pytest.approx(value, rel=1e-6, nan_ok=True), name
    return results[0]


def test_binary_metrics_equal_scikit_learns():
    entry = {
        "head": "binary", "loss": "focal",
        "metrics": ["log_loss", "expected_calibration_error", "confusion",
                    {"recall_at_precision": 0.8}, {"precision_at_recall": 0.7}],
    }  # fmt: skip
    got = streamed(make(entry, {"dtype": "int64"}), Z[:, None], Y)
    hit = (Z > 0).astype(int)
    precisions, recalls, _ = sk.precision_recall_curve(Y, Z, sample_weight=W)
    (tn, fp), (fn, tp) = sk.confusion_matrix(Y, hit, sample_weight=W)
    expected = {
        "log_loss": sk.log_loss(Y, P, sample_weight=W),
        "f1": sk.f1_score(Y, hit, sample_weight=W),
        "precision": sk.precision_score(Y, hit, sample_weight=W),
        "recall": sk.recall_score(Y, hit, sample_weight=W),
        "auc": sk.roc_auc_score(Y, Z, sample_weight=W),
        "auc_precision_recall": sk.average_precision_score(Y, Z, sample_weight=W),
        "recall_at_precision_0.8": recalls[precisions >= 0.8].max(),
        "precision_at_recall_0.7": precisions[recalls >= 0.7].max(),
        "true_positives": tp, "false_positives": fp, "false_negatives": fn, "true_negatives": tn,
    }  # fmt: skip
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=1e-6), name


def test_the_calibration_error_equals_that_of_scikit_learns_curve():
    entry = {"head": "binary", "metrics": ["expected_calibration_error"]}
    got = streamed(make(entry, {"dtype": "int64"}), Z[:, None], Y, np.ones(ROWS, "f"))
    happened, said = calibration_curve(Y, P, n_bins=15)
    sizes = np.histogram(P, bins=np.linspace(0, 1, 16))[0]
    expected = np.average(abs(happened - said), weights=sizes[sizes > 0])
    assert got["expected_calibration_error"] == pytest.approx(expected, rel=1e-5)


def test_the_calibration_error_by_hand():
    entry = {"head": "binary", "metrics": ["expected_calibration_error"]}
    z = np.full((2, 1), math.log(4), "f")  # Probability 0.8, of which one of two happens.
    got = evaluate(make(entry, {"dtype": "int64"}), [(z, np.array([1, 0]), np.ones(2))])
    assert got["expected_calibration_error"] == pytest.approx(0.3, abs=1e-6)


def test_multi_class_metrics_equal_scikit_learns():
    entry = {
        "head": "multi_class", "num_classes": 5, "loss": "focal",
        "metrics": ["log_loss", "f1", "mean_iou", "confusion", {"top_k_accuracy": 2},
                    {"top_k_accuracy": 3}, "expected_calibration_error"],
    }  # fmt: skip
    z = RNG.normal(0, 1, (ROWS, 5)).astype("f")
    y = np.where(RNG.random(ROWS) < 0.5, z.argmax(axis=1), RNG.integers(0, 4, ROWS))
    y[y == 4] = 3  # A class that is predicted and never a label.
    got = streamed(make(entry, {"dtype": "int64"}), z, y)
    p = np.exp(z.astype(float)) / np.exp(z.astype(float)).sum(axis=1, keepdims=True)
    guess, labels = z.argmax(axis=1), list(range(5))
    assert got["log_loss"] == pytest.approx(sk.log_loss(y, p, sample_weight=W, labels=labels))
    assert got["accuracy"] == pytest.approx(sk.accuracy_score(y, guess, sample_weight=W))
    average = {"average": "macro", "sample_weight": W, "zero_division": 0}
    assert got["f1"] == pytest.approx(sk.f1_score(y, guess, **average))
    assert got["mean_iou"] == pytest.approx(sk.jaccard_score(y, guess, **average))
    for k in (2, 3):
        expected = sk.top_k_accuracy_score(y, p, k=k, sample_weight=W, labels=labels)
        assert got[f"top_{k}_accuracy"] == pytest.approx(expected)
    matrix = sk.confusion_matrix(y, guess, sample_weight=W, labels=labels)
    for i in labels:
        for j in labels:
            assert got[f"label_{i}_predicted_{j}"] == matrix[i, j]
    sure, hit = p.max(axis=1), guess == y
    bins = np.minimum((sure * 15).astype(int), 14)
    gaps = [abs((W * (hit - sure))[bins == b].sum()) for b in range(15)]
    assert got["expected_calibration_error"] == pytest.approx(sum(gaps) / W.sum(), rel=1e-5)


@pytest.mark.parametrize("logits", [[[1, 1, 0]], [[0, 1, 1]]])
def test_classes_of_one_logit_are_ranked_by_their_ids(logits):
    entry = {"head": "multi_class", "num_classes": 3, "metrics": [{"top_k_accuracy": 1}]}
    got = evaluate(make(entry, {"dtype": "int64"}), [(logits, np.array([1]), np.ones(1))])
    assert got["top_1_accuracy"] == got["accuracy"]


def test_regression_metrics_equal_scikit_learns():
    entry = {"head": "regression", "loss": "huber", "metrics": ["mean_relative_error"]}
    y = RNG.normal(0, 3, ROWS).astype("f")
    got = streamed(make(entry, {"dtype": "float32"}), Z[:, None], y)
    mse = sk.mean_squared_error(y, Z, sample_weight=W)
    assert got["mean_squared_error"] == pytest.approx(mse)
    assert got["root_mean_squared_error"] == pytest.approx(math.sqrt(mse))
    mae = sk.mean_absolute_error(y, Z, sample_weight=W)
    assert got["mean_absolute_error"] == pytest.approx(mae)
    mre = sk.mean_absolute_percentage_error(y, Z, sample_weight=W)
    assert got["mean_relative_error"] == pytest.approx(mre, rel=1e-5)


def test_labels_of_zero_have_no_relative_error():
    objective = make({"head": "regression", "metrics": ["mean_relative_error"]},
                     {"dtype": "float32"})  # fmt: skip
    got = evaluate(objective, [([[3.0], [5.0]], [2.0, 0.0], [1.0, 1.0])])
    assert got["mean_relative_error"] == 0.5
    assert math.isnan(evaluate(objective, [([[5.0]], [0.0], [1.0])])["mean_relative_error"])


def test_multi_label_metrics_equal_scikit_learns():
    entry = {"head": "multi_label", "num_classes": 3,
             "metrics": ["log_loss", "auc", "auc_precision_recall", "confusion",
                         {"recall_at_precision": 0.6}]}  # fmt: skip
    z = (RNG.integers(-30, 31, (ROWS, 3)) / 8).astype("f")
    y = (RNG.random((ROWS, 3)) < 1 / (1 + np.exp(-z))).astype("f")
    got = streamed(make(entry, {"dtype": "int64", "shape": [3]}), z, y)
    flat, scores, w = y.ravel(), z.ravel(), np.repeat(W, 3)
    p = 1 / (1 + np.exp(-scores.astype(float)))
    precisions, recalls, _ = sk.precision_recall_curve(flat, scores, sample_weight=w)
    expected = {
        "log_loss": sk.log_loss(flat, p, sample_weight=w),
        "auc": sk.roc_auc_score(flat, scores, sample_weight=w),
        "auc_precision_recall": sk.average_precision_score(flat, scores, sample_weight=w),
        "recall_at_precision_0.6": recalls[precisions >= 0.6].max(),
        "f1": sk.f1_score(y, z > 0, average="micro", sample_weight=W),
        "true_positives": (w * flat * (scores > 0)).sum(),
    }
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=1e-6), name


# --- Groups --------------------------------------------------------------------------------------

GROUPED = {
    "head": "binary", "group_by": "user",
    "metrics": ["gauc", "mrr", {"ndcg": 3}, {"ndcg": 20}, {"hit_rate": 2}],
}  # fmt: skip


def hashes(rng, rows, groups):
    """Groups of very different sizes, as hashes."""
    names = rng.integers(0, 2**62, groups)
    return names[(groups * rng.random(rows) ** 2).astype(int)]


def by_group(groups, scores, labels, weights):
    """(scores, labels, weights) of each group, without rows that do not count."""
    for name in np.unique(groups[groups >= 0]):
        rows = (groups == name) & (weights > 0)
        yield scores[rows], labels[rows], weights[rows]


def test_group_metrics_equal_scikit_learn_group_by_group():
    scores = RNG.permutation(ROWS).astype("f") / 50  # No ties, which scikit-learn ranks otherwise.
    groups = hashes(RNG, ROWS, 60)
    groups[:20] = -1
    got = streamed(make(GROUPED, {"dtype": "int64"}), scores[:, None], Y, groups=groups)
    aucs, sizes, ndcg3, ndcg20, firsts = [], [], [], [], []
    for s, y, w in by_group(groups, scores, Y, W):
        if 0 < y.sum() < len(y):
            aucs.append(sk.roc_auc_score(y, s, sample_weight=w))
            sizes.append(w.sum())
        if y.sum():
            firsts.append(1 + np.flatnonzero(y[np.argsort(-s)])[0])
            if len(y) > 1:
                ndcg3.append(sk.ndcg_score([y], [s], k=3))
                ndcg20.append(sk.ndcg_score([y], [s], k=20))
            else:
                ndcg3.append(1)
                ndcg20.append(1)
    assert got["gauc"] == pytest.approx(np.average(aucs, weights=sizes))
    assert got["ndcg_at_3"] == pytest.approx(np.mean(ndcg3))
    assert got["ndcg_at_20"] == pytest.approx(np.mean(ndcg20))
    assert got["mrr"] == pytest.approx(np.mean(1 / np.array(firsts)))
    assert got["hit_rate_at_2"] == pytest.approx(np.mean(np.array(firsts) <= 2))
    assert got["groups"] == len([1 for s, _, _ in by_group(groups, scores, Y, W) if len(s)])
    assert got["group_rows_share"] == 1


def test_ties_count_half_in_gauc_and_are_unlucky_in_ranks():
    z, y = np.zeros((4, 1), "f"), np.array([1, 0, 0, 0])
    got = evaluate(make(GROUPED, {"dtype": "int64"}), [(z, y, np.ones(4))],
                   groups=[np.full(4, 5)])  # fmt: skip
    assert got["gauc"] == 0.5
    assert got["mrr"] == 0.25 and got["hit_rate_at_2"] == 0
    assert got["ndcg_at_20"] == pytest.approx(1 / math.log2(5))
    objective = make(GROUPED, {"dtype": "int64"})
    z, groups = (RNG.integers(0, 4, ROWS) / 2).astype("f"), hashes(RNG, ROWS, 40)
    got = streamed(objective, z[:, None], Y, groups=groups)
    parts = [p for p in by_group(groups, z, Y, W) if 0 < p[1].sum() < len(p[1])]
    aucs = [sk.roc_auc_score(y, s, sample_weight=w) for s, y, w in parts]
    assert got["gauc"] == pytest.approx(np.average(aucs, weights=[w.sum() for _, _, w in parts]))


def test_without_groups_there_is_nothing_to_measure():
    got = evaluate(make(GROUPED, {"dtype": "int64"}), [(np.zeros((2, 1)), [1, 0], np.ones(2))],
                   groups=[[-1, -1]])  # fmt: skip
    assert got["groups"] == 0
    assert all(math.isnan(got[name]) for name in ("gauc", "mrr", "ndcg_at_3", "group_rows_share"))


@pytest.mark.parametrize("batch", [1, 7, 64, 500])
def test_beyond_the_capacity_whole_groups_are_sampled_the_same_way(batch):
    rng = np.random.default_rng(5)
    groups, scores = hashes(rng, ROWS, 80), rng.normal(size=ROWS).astype("f")
    capacity = 90
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        g = tf.compat.v1.placeholder(tf.int64, [None])
        s, y = (tf.compat.v1.placeholder(tf.float32, [None]) for _ in range(2))
        metrics = group_metrics.group_metrics(
            [MetricChoice(GAUC)], g, s, y, tf.ones_like(s), capacity=capacity
        )
        session.run(tf.compat.v1.local_variables_initializer())
        for i in range(0, ROWS, batch):
            part = slice(i, i + batch)
            feed = {g: groups[part], s: scores[part], y: Y[part]}
            session.run([update for _, update in metrics.values()], feed)
        got = session.run({name: value for name, (value, _) in metrics.items()})
    # By hand: the groups of the smallest hashes, as long as they fit.
    names, sizes = np.unique(groups, return_counts=True)
    kept = names[np.cumsum(sizes) <= capacity]
    mask = np.isin(groups, kept)
    parts = list(by_group(np.where(mask, groups, -1), scores, Y, np.ones(ROWS)))
    usable = [p for p in parts if 0 < p[1].sum() < len(p[1])]
    expected = np.average([sk.roc_auc_score(y, s) for s, y, _ in usable],
                          weights=[len(s) for s, _, _ in usable])  # fmt: skip
    assert got["groups"] == len(kept)
    assert got["group_rows_share"] == pytest.approx(mask.sum() / ROWS)
    assert got["gauc"] == pytest.approx(expected)
