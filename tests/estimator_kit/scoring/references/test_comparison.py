"""Metrics, intervals and verdicts, compared with scikit-learn and with values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics

import feature_specs
from estimator_kit.model.heads.group_metrics import group_metrics
from estimator_kit.scoring.references import comparison
from estimator_kit.scoring.references.comparison import Judge
from estimator_kit.scoring.references.rows import Target
from estimator_kit.scoring.slices import Interval

RNG = np.random.default_rng(5)


def entry_of(head, **options):
    ignored = [] if "group_by" in options else ["q"]
    return feature_specs.parse({
        "features": {"x": {"dtype": "float32"}, "q": {"dtype": "string"}},
        "columns": {"x": {"numeric": "x"}},
        "groups": {"deep": ["x"]},
        "labels": {"y": {"dtype": "float32" if head == "regression" else "int64"}},
        "objectives": {"y": {"head": head, **options}},
        "ignored": ignored,
    }).objectives["y"]  # fmt: skip


def target_of(labels, weights=None, groups=None):
    labels = np.asarray(labels, np.float64)
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
    return Target(labels, weights, groups)


def test_metrics_of_binary():
    labels, weights = RNG.integers(0, 2, 200), RNG.random(200)
    logits = RNG.normal(size=200) + labels
    judge = Judge(entry_of("binary"), target_of(labels, weights))
    assert judge.values(logits) == pytest.approx({
        "auc": metrics.roc_auc_score(labels, logits, sample_weight=weights),
        "log_loss": metrics.log_loss(labels, 1 / (1 + np.exp(-logits)), sample_weight=weights),
    })  # fmt: skip


def test_metrics_of_numbers_and_classes():
    judge = Judge(entry_of("regression"), target_of([1, 2, 4]))
    assert judge.values(np.array([1.0, 0, 4])) == pytest.approx(
        {"rmse": np.sqrt(4 / 3), "mean_absolute_error": 2 / 3}
    )
    judge = Judge(entry_of("multi_class", num_classes=3), target_of([0, 1]))
    shares = np.array([[0.8, 0.2, 0.0], [0.5, 0.4, 0.1]])
    loss = -(np.log(0.8) + np.log(0.4)) / 2
    assert judge.values(shares) == pytest.approx({"accuracy": 0.5, "log_loss": loss})


@pytest.mark.parametrize("k", [1, 3])
def test_ndcg_is_the_same_as_in_an_evaluation(k):
    """Also with ties, groups without a grade, rows without a weight, and rows without a group."""
    groups = np.repeat(np.arange(60), RNG.integers(1, 9, 60))
    rows = len(groups)
    grades = RNG.integers(0, 4, rows) * (groups % 7 > 0)
    scores, weights = RNG.integers(0, 5, rows), RNG.integers(0, 3, rows)
    hashes = np.where(groups == 5, -1, groups * 1000)
    order = RNG.permutation(rows)
    grades, scores, weights, hashes = (x[order] for x in (grades, scores, weights, hashes))
    entry = entry_of("ranking", group_by="q", metrics=[{"ndcg": k}])
    judge = Judge(entry, target_of(grades, weights, hashes.astype(np.int64)))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        floats = [tf.constant(x, tf.float32) for x in (scores, grades, weights)]
        made = group_metrics(entry.metric_choices(), tf.constant(hashes), *floats, grades=True)
        value, update = made[f"ndcg_at_{k}"]
        session.run([tf.compat.v1.global_variables_initializer(),
                     tf.compat.v1.local_variables_initializer()])  # fmt: skip
        session.run(update)
        expected = session.run(value)
    assert judge.values(scores.astype(np.float64)) == pytest.approx({f"ndcg_at_{k}": expected})


def test_the_interval_is_a_bootstrap_of_the_difference():
    """Against the plain algorithm: draw rows, score both models with scikit-learn, subtract."""
    labels = RNG.integers(0, 2, 300)
    model, reference = (RNG.normal(size=300) + scale * labels for scale in (0.5, 1.5))
    found, verdict = Judge(entry_of("binary"), target_of(labels)).compare(model, reference)
    draws = np.random.default_rng(1)
    differences = []
    for _ in range(comparison.SAMPLES):
        rows = draws.integers(0, 300, 300)
        scores = (metrics.roc_auc_score(labels[rows], x[rows]) for x in (reference, model))
        differences.append(np.subtract(*scores))
    estimate = metrics.roc_auc_score(labels, reference) - metrics.roc_auc_score(labels, model)
    assert found == pytest.approx((estimate, *np.quantile(differences, [0.025, 0.975])))
    assert verdict == "reference"


def test_groups_are_drawn_whole():
    """Each group has ten equal rows, so an interval of single rows would be too narrow."""
    labels = np.repeat(RNG.integers(0, 2, 30), 10)
    model, reference = (np.repeat(RNG.normal(size=30), 10) for _ in range(2))
    groups = np.repeat(np.arange(30), 10)
    entry = entry_of("binary", group_by="q", metrics=["gauc"])
    of_groups, _ = Judge(entry, target_of(labels, groups=groups)).compare(model, reference)
    of_rows, _ = Judge(entry_of("binary"), target_of(labels)).compare(model, reference)
    assert of_groups.estimate == of_rows.estimate
    assert of_groups.high - of_groups.low > 2 * (of_rows.high - of_rows.low)


@pytest.mark.parametrize(
    ("low", "high", "larger", "expected"),
    [
        (0.1, 0.3, True, "reference"),
        (-0.3, -0.1, True, "model"),
        (0.1, 0.3, False, "model"),
        (-0.3, -0.1, False, "reference"),
        (-0.1, 0.3, True, "none"),
        (0.0, 0.0, True, "none"),
        (float("nan"), float("nan"), True, "undefined"),
    ],
)
def test_verdicts(low, high, larger, expected):
    assert comparison.verdict(Interval(0.0, low, high), larger) == expected


def test_rows_of_one_class_are_not_compared():
    judge = Judge(entry_of("binary"), target_of([1, 1]))
    assert judge.compare(np.zeros(2), np.ones(2))[1] == "undefined"
