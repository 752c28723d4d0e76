"""Curves of an evaluation, compared with scikit-learn, NumPy and values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sk

import estimator_kit as ek
from estimator_kit.model.heads import score_bins, streaming
from estimator_kit.model.heads.base import Batch
from estimator_kit.observing import curves
from tests.conftest import small_run
from tests.estimator_kit.model.heads.test_objectives import make

RNG = np.random.default_rng(5)
ROWS = 2000
W = RNG.integers(0, 3, ROWS).astype("f")
Z = RNG.normal(-1, 2, ROWS).astype("f")
Y = (RNG.random(ROWS) < 1 / (1 + np.exp(-Z))).astype(np.int64)


def curve_of(objective, logits, labels, weights, groups=None):
    """The curve of an objective after batches of 300 rows."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        fed = [
            tf.compat.v1.placeholder(values.dtype, [None, *values.shape[1:]])
            for values in (logits, labels, weights)
        ]
        group = None if groups is None else tf.compat.v1.placeholder(tf.int64, [None])
        metrics = objective.metrics(Batch(*fed, None, group))
        (found,) = streaming.take(graph)
        assert streaming.take(graph) == []
        session.run(tf.compat.v1.local_variables_initializer())
        for i in range(0, len(logits), 300):
            rows = slice(i, i + 300)
            feed = dict(zip(fed, (logits[rows], labels[rows], weights[rows])))
            if group is not None:
                feed[group] = groups[rows]
            session.run([update for _, update in metrics.values()], feed)
        assert found.objective == "y"
        return curves.curve(found.kind, session.run(found.total))


@pytest.mark.parametrize("rows", [25_000, 2_500_000])
def test_a_curve_does_not_grow_with_rows(rows):
    logits = RNG.normal(-1, 2, (2, rows))
    edges = np.unique(logits[0][: score_bins.CAPACITY])
    counts = [np.histogram(each, edges)[0] for each in logits]
    found = curves.curve("histogram", [edges[:-1], *counts])
    assert 150 < len(found.points.logit) <= curves.POINTS
    assert len(found.reliability.weight) == curves.RELIABILITY_BINS
    assert len(found.model_dump_json()) < 13_000


@pytest.fixture(scope="module")
def binary():
    return curve_of(make({"head": "binary"}, {"dtype": "int64"}), Z[:, None], Y, W)


def test_the_area_under_the_points_is_the_auc(binary):
    points, weight = binary.points, binary.weight
    assert len(points.logit) <= curves.POINTS
    recall = np.array([0, *points.positives]) / weight.positives
    false_positive_rate = np.array([0, *points.negatives]) / weight.negatives
    assert (recall[-1], false_positive_rate[-1]) == (1, 1)
    area = np.sum(np.diff(false_positive_rate) * (recall[1:] + recall[:-1]) / 2)
    assert area == pytest.approx(sk.roc_auc_score(Y, Z, sample_weight=W), abs=5e-4)


def test_each_point_counts_the_rows_above_its_threshold(binary):
    points = binary.points
    for logit, positives, negatives in zip(points.logit, points.positives, points.negatives):
        above = logit <= Z
        assert positives == pytest.approx(W[above & (Y == 1)].sum())
        assert negatives == pytest.approx(W[above & (Y == 0)].sum())


def test_the_bins_of_reliability_hold_all_rows(binary):
    reliability = binary.reliability
    assert len(reliability.weight) == curves.RELIABILITY_BINS
    assert sum(reliability.weight) == pytest.approx(W.sum())
    weighted = np.dot(reliability.weight, reliability.label)
    assert weighted == pytest.approx((W * Y).sum())
    predictions = 1 / (1 + np.exp(-Z.astype(float)))
    weighted = np.dot(reliability.weight, reliability.prediction)
    assert weighted == pytest.approx((W * predictions).sum(), rel=1e-3)
    assert reliability.prediction == sorted(reliability.prediction)


def test_an_evaluation_without_rows_has_no_points():
    nothing = np.zeros_like(W)
    curve = curve_of(make({"head": "binary"}, {"dtype": "int64"}), Z[:, None], Y, nothing)
    assert curve.weight == curves.Labels(positives=0, negatives=0)
    assert curve.reliability == curves.Reliability(weight=[], prediction=[], label=[])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_residuals_by_decile_of_the_prediction(scale):
    y = ((Z + RNG.normal(0, 1, ROWS)) * scale).astype("f")
    curve = curve_of(
        make({"head": "regression"}, {"dtype": "float32"}), Z[:, None] * scale, y, np.ones_like(W)
    )
    found = curve.deciles
    order = np.argsort(Z)
    parts = np.array_split(order, 10)
    np.testing.assert_allclose(found.weight, [200] * 10, atol=25)
    for means, values in ((found.prediction, Z * scale), (found.label, y)):
        expected = [values[part].mean() for part in parts]
        np.testing.assert_allclose(means, expected, atol=0.12 * scale)
    residuals = np.subtract(found.label, found.prediction)
    np.testing.assert_allclose(found.residual, residuals)
    errors = [np.sqrt(np.mean((y - Z * scale)[part] ** 2)) for part in parts]
    np.testing.assert_allclose(found.root_mean_squared_error, errors, rtol=0.1)


def test_predictions_in_a_narrow_range_have_ten_deciles():
    """Bins that are a share of the value wide would put all of them into one."""
    z = (1000 + np.arange(ROWS) / ROWS).astype("f")
    curve = curve_of(make({"head": "regression"}, {"dtype": "float32"}), z[:, None], z, W * 0 + 1)
    parts = [part.mean() for part in np.array_split(z.astype(float), 10)]
    np.testing.assert_allclose(curve.deciles.prediction, parts, atol=1e-3)


def test_the_confusion_of_classes_by_hand():
    logits = np.eye(3, dtype="f")[[0, 1, 1, 2]]
    labels, weights = np.array([0, 0, 1, 2]), np.array([1, 2, 1, 1], "f")
    objective = make({"head": "multi_class", "num_classes": 3}, {"dtype": "int64"})
    curve = curve_of(objective, logits, labels, weights)
    assert curve == curves.Confusion(kind="confusion", matrix=[[1, 2, 0], [0, 1, 0], [0, 0, 1]])


def test_many_classes_are_counted_one_by_one():
    logits = np.eye(60, dtype="f")[[0, 1, 1]]
    objective = make({"head": "multi_class", "num_classes": 60}, {"dtype": "int64"})
    curve = curve_of(objective, logits, np.array([0, 0, 1]), np.array([1, 2, 1], "f"))
    assert [found[:3] for found in (curve.labels, curve.predictions, curve.hits)] == [
        [3, 1, 0], [1, 3, 0], [1, 1, 0],
    ]  # fmt: skip


def test_labels_of_several_classes_by_hand():
    objective = make({"head": "multi_label", "num_classes": 2}, {"dtype": "float32", "shape": [2]})
    logits = np.array([[1, -1], [1, 1]], "f")
    labels = np.array([[1, 1], [0, 1]], "f")
    curve = curve_of(objective, logits, labels, np.array([1, 2], "f"))
    assert curve == curves.ByClass(kind="by_class", labels=[1, 3], predictions=[3, 2], hits=[1, 2])


def test_the_coverage_of_quantiles_by_hand():
    objective = make({"head": "quantile", "quantiles": [0.1, 0.9]}, {"dtype": "float32"})
    logits = np.array([[0, 2], [0, 2], [0, 2], [0, 2]], "f")
    curve = curve_of(objective, logits, np.array([-1, 1, 1, 3], "f"), np.ones(4, "f"))
    assert curve == curves.Coverage(kind="coverage", weight=4, covered=[0.25, 0.75])


def test_survival_by_hand():
    """Of four rows, one has its event in the first interval, and one in the second."""
    entry = {"head": "survival", "event": "gone", "boundaries": [1, 2]}
    labels = np.array([[0.5, 1], [1.5, 1], [9, 0], [0.7, 0]], "f")
    objective = make(entry, {"dtype": "float32"})
    curve = curve_of(objective, np.zeros((4, 2), "f"), labels, np.ones(4, "f"))
    # The last row was watched for most of the first interval only.
    assert curve == curves.Survival(
        kind="survival", watched=[4, 2], observed=[0.75, 0.375], predicted=[0.5, 0.25]
    )


def test_the_similarity_of_directions_by_hand():
    objective = make({"head": "cosine", "dimension": 2}, {"dtype": "float32", "shape": [2]})
    logits = np.array([[1, 0], [1, 0]], "f")
    curve = curve_of(objective, logits, np.array([[2, 0], [-1, 0]], "f"), np.array([3, 1], "f"))
    assert curve.weight == [1, *[0] * 38, 3]


def test_the_loss_by_length_of_list_by_hand():
    objective = make({"head": "ranking", "group_by": "user"}, {"dtype": "float32"})
    # A list of 2 rows that costs log(1 + e), and one of 3 rows whose three pairs cost log 2 each.
    scores = np.array([[0], [1], [0], [0], [0]], "f")
    curve = curve_of(
        objective, scores, np.array([1, 0, 0, 1, 2], "f"), np.ones(5, "f"),
        np.array([1, 1, 2, 2, 2]),
    )  # fmt: skip
    assert curve.rows == [2, 4]
    assert curve.weight == [1, 1]
    assert curve.loss == pytest.approx([np.log1p(np.e), np.log(2)], rel=1e-6)


@pytest.mark.nightly
def test_each_evaluation_of_a_training_writes_its_curves(ads, tmp_path):
    config = small_run(ads, tmp_path / "run", max_steps=4, save_checkpoints_steps=2)
    result = ek.run(config())
    found = curves.read(str(tmp_path / "run"))
    assert list(found) == [2, 4]
    assert set(found[4]) == {"click", "buy"}
    weight = found[4]["click"].weight
    assert weight.positives + weight.negatives == result.metrics["weight_sum/click"] == 200
    ek.run(config(mode="evaluate", eval_name="test"))
    assert (tmp_path / "run" / "observed" / "curves" / "4-test.json").exists()
    assert list(curves.read(str(tmp_path / "run"))) == [2, 4]
