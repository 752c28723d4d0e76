"""Metrics of rows and intervals of differences, compared with scikit-learn and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics

from estimator_kit.model.heads import row_metric, row_metrics
from estimator_kit.scoring import slices


def rows(count=400, seed=0):
    random = np.random.default_rng(seed)
    predictions = np.round(0.005 + 0.99 * random.random(count), 3)  # With ties.
    labels = (random.random(count) < predictions).astype(np.int64)
    return labels, predictions, random.integers(0, 3, count).astype(np.float64)


def logit(probabilities):
    return np.log(probabilities) - np.log1p(-probabilities)


def test_the_worked_auc():
    auc = row_metric("auc", "binary", [0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8], np.ones(4))
    assert auc.value() == 0.875


@pytest.mark.parametrize("drawn", [False, True])
def test_metrics_are_those_of_scikit_learn(drawn):
    labels, predictions, weights = rows()
    counts = np.random.default_rng(1).integers(0, 4, len(labels)) * 1.0 if drawn else None
    both = weights if counts is None else weights * counts
    expected = {
        "auc": sklearn.metrics.roc_auc_score(labels, predictions, sample_weight=both),
        "log_loss": sklearn.metrics.log_loss(labels, predictions, sample_weight=both),
        "mean_absolute_error": sklearn.metrics.mean_absolute_error(
            labels, predictions, sample_weight=both
        ),
        "mean_squared_error": sklearn.metrics.mean_squared_error(
            labels, predictions, sample_weight=both
        ),
        "calibration": (predictions * both).sum() / (labels * both).sum(),
    }
    for name, value in expected.items():
        # Of a binary head from its logits, and of a head of numbers from its predictions.
        head = "regression" if name.startswith("mean") else "binary"
        outputs = predictions if head == "regression" else logit(predictions)
        found = row_metric(name, head, labels, outputs, weights).value(counts)
        assert found == pytest.approx(value, rel=1e-12), name


def test_metrics_of_classes():
    labels, weights = np.array([0, 2, 1]), np.array([1.0, 2.0, 1.0])
    shares = np.array([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6], [0.7, 0.2, 0.1]])
    assert row_metric("accuracy", "multi_class", labels, shares, weights).value() == 0.75
    expected = -(math.log(0.5) + 2 * math.log(0.6) + math.log(0.2)) / 4
    found = row_metric("log_loss", "multi_class", labels, shares, weights).value()
    assert found == pytest.approx(expected, rel=1e-12)


def test_metrics_of_classes_in_an_order():
    labels, weights = np.array([0, 2, 1]), np.array([1.0, 2.0, 1.0])
    shares = np.array([[0.5, 0.25, 0.25], [0.6, 0.2, 0.2], [0.1, 0.2, 0.7]])
    metric = row_metric("mean_absolute_error", "ordinal", labels, shares, weights)
    assert metric.value() == (0 + 2 * 2 + 1) / 4


# Two intervals: an event in the second one, one in the first one, and a row without one.
TIMES = np.array([[1, 1], [0, 1], [2, 0]])
SURVIVAL = np.array([[0.8, 0.5], [0.6, 0.2], [0.9, 0.5]])


def hazard_logits(survival):
    """The logits of the hazards 1 - S_k / S_(k - 1)."""
    before = np.concatenate([np.ones_like(survival[:, :1]), survival[:, :-1]], axis=1)
    return logit(1 - survival / before)


def test_metrics_of_survival_times_by_hand():
    ones, logits = np.ones(3), hazard_logits(SURVIVAL)
    logits[2] = logits[0]  # A tie of the risks, which rounding would break.
    found = row_metric("log_loss", "survival", TIMES, logits, ones).value()
    assert found == pytest.approx(-(math.log(0.3) + math.log(0.4) + math.log(0.5)) / 3)
    # Pairs: the first event with both others, and the second event with the last row (a tie).
    concordance = row_metric("concordance", "survival", TIMES, logits, ones)
    assert concordance.value() == pytest.approx(2.5 / 3)
    assert concordance.value(np.array([2.0, 0, 1])) == 0.5
    assert math.isnan(concordance.value(np.array([0, 0, 1.0])))
    no_event = np.array([[0, 0], [2, 0], [1, 0]])
    assert math.isnan(row_metric("concordance", "survival", no_event, logits, ones).value())
    assert row_metrics.badness("concordance", 0.6) > row_metrics.badness("concordance", 0.7)


def test_the_concordance_is_that_of_all_pairs():
    random = np.random.default_rng(4)
    survived = random.integers(0, 5, 200)
    ended = (random.random(200) < 0.5) & (survived < 4)
    risks, weights = np.round(random.random(200), 1), random.integers(0, 3, 200) * 1.0
    counts = random.integers(0, 3, 200) * 1.0
    logits = np.repeat(risks[:, np.newaxis], 4, axis=1)
    labels = np.stack([survived, ended], axis=1)
    both = weights * counts
    pairs = ended[:, np.newaxis] * (survived > survived[:, np.newaxis]) * np.outer(both, both)
    order = (risks[:, np.newaxis] > risks) + 0.5 * (risks[:, np.newaxis] == risks)
    found = row_metric("concordance", "survival", labels, logits, weights).value(counts)
    assert found == pytest.approx((pairs * order).sum() / pairs.sum())


def test_large_logits_and_risks_keep_their_order_and_their_loss():
    """Probabilities of float32 would round them to 0 or 1."""
    z, labels, ones = np.array([-90.0, -80, 30, 40]), np.array([0, 1, 0, 1]), np.ones(4)
    assert row_metric("auc", "binary", labels, z, ones).value() == 0.75
    found = row_metric("log_loss", "binary", labels, z, ones).value()
    assert found == pytest.approx((80 + 30) / 4)
    times = np.array([[0, 1], [1, 0]])
    for logits in ([[40.0], [30.0]], [[-40.0], [-50.0]]):
        concordance = row_metric("concordance", "survival", times, logits, np.ones(2))
        assert concordance.value() == 1


@pytest.mark.parametrize("name", ["auc", "log_loss", "calibration"])
def test_without_weight_nothing_is_defined(name):
    labels, predictions, weights = rows()
    assert math.isnan(row_metric(name, "binary", labels, predictions, 0 * weights).value())
    none = np.zeros(0)
    assert math.isnan(row_metric(name, "binary", none, none, none).value())


def test_badness_grows_as_things_get_worse():
    assert row_metrics.badness("auc", 0.6) > row_metrics.badness("auc", 0.7)
    assert row_metrics.badness("log_loss", 0.3) < row_metrics.badness("log_loss", 0.4)
    assert row_metrics.badness("calibration", 0.5) == row_metrics.badness("calibration", 2.0)
    assert row_metrics.badness("calibration", 0.0) == math.inf


def test_the_interval_is_that_of_a_plain_loop():
    labels, predictions, weights = rows()
    other = np.clip(predictions + 0.05, 0, 0.999)
    groups = np.arange(len(labels)) // 5
    metrics = [
        row_metric("log_loss", "binary", labels, logit(p), weights) for p in (predictions, other)
    ]
    found = slices.difference(
        metrics[0].value, metrics[1].value, rows=len(labels), groups=groups, samples=50,
        confidence=0.8, seed=3,
    )  # fmt: skip
    random, differences = np.random.default_rng(3), []
    for _ in range(50):
        picked = np.concatenate([np.flatnonzero(groups == g) for g in random.integers(0, 80, 80)])
        differences.append(
            np.subtract(*(
                sklearn.metrics.log_loss(
                    labels[picked], p[picked], sample_weight=weights[picked],
                )
                for p in (predictions, other)
            ))
        )  # fmt: skip
    low, high = np.quantile(differences, [0.1, 0.9])
    assert found == pytest.approx((metrics[0].value() - metrics[1].value(), low, high), rel=1e-9)


def test_the_interval_holds_what_it_should_in_about_nine_of_ten_cases():
    """200 means of 60 normal numbers: 180 are expected inside, with a standard deviation of 4."""
    random, held = np.random.default_rng(5), 0
    for _ in range(200):
        mean = row_metrics.Mean(random.normal(1.0, 2.0, 60), np.ones(60))
        nothing = row_metrics.Mean(np.zeros(60), np.ones(60))
        found = slices.difference(mean.value, nothing.value, rows=60, samples=200, confidence=0.9)
        held += found.low <= 1.0 <= found.high
    assert 165 <= held <= 194


def test_groups_widen_the_interval_of_rows_that_depend_on_each_other():
    numbers = np.repeat(np.random.default_rng(0).normal(size=40), 25)
    mean = row_metrics.Mean(numbers, np.ones(1000))
    nothing = row_metrics.Mean(np.zeros(1000), np.ones(1000))
    alone = slices.difference(mean.value, nothing.value, rows=1000)
    together = slices.difference(
        mean.value, nothing.value, rows=1000, groups=np.repeat(np.arange(40), 25)
    )
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_what_is_not_defined_has_no_interval():
    auc = row_metric("auc", "binary", np.zeros(5), np.arange(5.0), np.ones(5))
    assert all(map(math.isnan, slices.difference(auc.value, auc.value, rows=5)))
    rare = row_metric("auc", "binary", np.eye(1, 5)[0], np.arange(5.0), np.ones(5))
    found = slices.difference(rare.value, rare.value, rows=5)
    assert found.estimate == 0 and math.isnan(found.low)
