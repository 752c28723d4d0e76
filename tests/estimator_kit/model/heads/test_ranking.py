"""The ranking head: its losses by hand and in NumPy, its metrics as scikit-learn has them.

`test_tensorflow_ranking.py` compares both with TensorFlow Ranking.
"""

from __future__ import annotations

import itertools
import json
import logging
import math

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import ndcg_score

import estimator_kit as ek
from estimator_kit.checkpoints import run_record
from estimator_kit.commands import validated_data
from estimator_kit.config.modes import command_of
from input_pipelines.record_files import writing
from tests.conformance.table import losses_of_head
from tests.estimator_kit.model.heads.test_objectives import evaluate, make

RNG = np.random.default_rng(17)
ROWS = 120
GROUPS = np.repeat([7, 5, 11, 4, 2, -1, 9], [30, 6, 41, 17, 1, 5, 20])[RNG.permutation(ROWS)]
SCORES = RNG.normal(0, 2, ROWS).astype("f")
GRADES = RNG.integers(0, 4, ROWS).astype("f")
GRADES[GROUPS == 4] = 2  # A list without an order.
W = RNG.integers(0, 3, ROWS).astype("f")

LOSSES = losses_of_head("ranking")
LAMBDAS = [{name: {"lambda_weight": "ndcg"}} for name in LOSSES if name.startswith("pairwise")]


def ranking(loss="pairwise_logistic", dtype="float32", **fields):
    return make({"head": "ranking", "group_by": "user", "loss": loss, **fields}, {"dtype": dtype})


def losses_of(loss, groups, scores, labels, weights):
    objective = ranking(loss)
    z = tf.constant(np.array(scores, "f")[:, None])
    found = objective.losses_and_weights(
        z, tf.constant(labels, tf.float32), tf.constant(weights, tf.float32),
        tf.constant(groups, tf.int64),
    )  # fmt: skip
    return [part.numpy() for part in found]


# --- In NumPy, one list after the other ----------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


PAIRS = {
    "pairwise_logistic": lambda d: np.log1p(np.exp(-d)),
    "pairwise_hinge": lambda d: max(0.0, 1 - d),
    "pairwise_soft_zero_one": lambda d: 1 - sigmoid(d),
}


def of_one_list(loss, s, y, w):
    """(loss, weight) of one list."""
    name, options = (loss, {}) if isinstance(loss, str) else next(iter(loss.items()))
    n = len(s)
    if name in PAIRS:
        factor = np.ones((n, n))
        if options:
            rank = 1 + np.argsort(np.argsort(-s))
            gain = 2**y - 1
            gain /= sum(g / math.log(2 + i) for i, g in enumerate(sorted(gain, reverse=True)))
            for i in range(n):
                for j in set(range(n)) - {i}:
                    d = abs(rank[i] - rank[j])
                    u = 1 / math.log(1 + d) - 1 / math.log(2 + d)
                    factor[i, j] = abs(gain[i] - gain[j]) * u * n
        pairs = [(i, j) for i in range(n) for j in range(n) if y[i] > y[j]]
        total = sum(w[i] * factor[i, j] * PAIRS[name](s[i] - s[j]) for i, j in pairs)
        return total / sum(w[i] for i, _ in pairs), np.mean([w[i] for i, _ in pairs])
    weight = (w * y).sum() / y.sum()
    if name == "softmax":
        share = w * y / (w * y).sum()
        return -(share * (s - np.log(np.exp(s).sum()))).sum(), weight
    if name == "unique_softmax":
        below = [np.exp(s[y < y[i]]).sum() + np.exp(s[i]) for i in range(n)]
        return ((2**y - 1) * (np.log(below) - s)).sum(), weight
    if name == "list_mle":
        total = 0.0
        for label in set(y):
            own, lower = np.exp(s[y == label]), np.exp(s[y < label]).sum()
            gone = np.arange(len(own)) / len(own)
            total += np.log(own.sum() * (1 - gone) + lower).sum() - s[y == label].sum()
        return total, weight
    rank = [0.5 + sigmoid((s - s[i]) / 0.1).sum() for i in range(n)]
    gain = 2**y - 1
    best = sum(g / math.log2(2 + i) for i, g in enumerate(sorted(gain, reverse=True)))
    return -sum(g / math.log2(1 + r) for g, r in zip(gain, rank)) / best, weight


def lists():
    """(scores, labels, weights) of the groups that have an order, by their hash."""
    for name in sorted(set(GROUPS[GROUPS >= 0])):
        rows = (name == GROUPS) & (W > 0)
        if len(set(GRADES[rows])) > 1:
            yield SCORES[rows].astype("d"), GRADES[rows].astype("d"), W[rows].astype("d")


@pytest.mark.parametrize("loss", [*LOSSES, *LAMBDAS])
def test_losses_equal_numpy_list_by_list(loss):
    expected = [of_one_list(loss, *rows) for rows in lists()]
    assert len(expected) == 4
    losses, weights = losses_of(loss, GROUPS, SCORES, GRADES, W)
    np.testing.assert_allclose(losses, [loss for loss, _ in expected], rtol=2e-5)
    np.testing.assert_allclose(weights, [weight for _, weight in expected], rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "value"),
    [
        ("pairwise_logistic", math.log(1 + math.e)),
        ("pairwise_hinge", 2),
        ("pairwise_soft_zero_one", sigmoid(1)),
        ("softmax", math.log(1 + math.e)),
        ("unique_softmax", math.log(1 + math.e)),
        ("list_mle", math.log(1 + math.e)),
        ("approx_ndcg", -1 / math.log2(2 + sigmoid(10))),
        ({"pairwise_logistic": {"lambda_weight": "ndcg"}}, 0.9693716),
    ],
)
def test_losses_by_hand_whatever_is_beside_the_list(loss, value):
    assert losses_of(loss, [3, 3], [0, 1], [1, 0], [1, 1])[0] == pytest.approx([value], abs=1e-6)
    # A longer list, rows that are alone, without a group or without a weight; far off scores.
    groups = [3, 9, 9, 3, 9, 8, -1, -1, 3, 9]
    scores = [100, 7, 3, 101, -50, 0, 4, 5, 99, 2]
    losses, weights = losses_of(
        loss, groups, scores, [1, 0, 2, 0, 1, 1, 1, 0, 0, 0], [5, 1, 1, 5, 1, 1, 1, 1, 0, 1]
    )
    assert losses[0] == pytest.approx(value, abs=2e-5)
    assert weights.tolist() == [5, 1]


@pytest.mark.parametrize(
    ("loss", "scores", "labels", "value"),
    [
        ("softmax", [0, 1, 1], [1, 1, 0], (2 * math.log(1 + 2 * math.e) - 1) / 2),
        ("unique_softmax", [0, 1, 0], [2, 1, 0],
         3 * math.log(2 + math.e) + math.log(1 + math.e) - 1),
        ("list_mle", [0, 0, 0], [1, 0, 0], math.log(6)),
        # Sums e^s: 1 of the first row; 1 + 3 of the tie; half of it; nothing is lower.
        ("list_mle", [0, 0, math.log(3)], [1, 0, 0], math.log(5) + math.log(4 / 3) + math.log(2)),
        ("approx_ndcg", [2, 2], [1, 0], -1 / math.log2(2.5)),
        # Equal scores: the better row is last, at the distance 2 of the first row and 1 of the
        # other one. Of the gains (1, 0, 0), the best DCG is 1 / log 2.
        ({"pairwise_hinge": {"lambda_weight": "ndcg"}}, [1, 1, 1], [1, 0, 0],
         math.log(2) * 3 * (1 / math.log(2) - 1 / math.log(4)) / 2),
    ],
)  # fmt: skip
def test_more_losses_by_hand(loss, scores, labels, value):
    for step in (1, -1):  # The order of the rows does not matter.
        args = (scores[::step], labels[::step], np.ones(len(scores)))
        assert losses_of(loss, [5] * len(scores), *args)[0] == pytest.approx([value], rel=1e-5)


@pytest.mark.parametrize("loss", [*LOSSES, *LAMBDAS])
def test_equal_scores_have_the_gradient_of_the_formula(loss):
    """A model that starts with zeros has equal scores. It must not stay there."""
    y, w = np.array([2, 0, 1, 0], "f"), np.array([1, 2, 1, 3], "f")
    scores = tf.Variable(np.zeros((4, 1), "f"))
    args = tf.constant(y), tf.constant(w), tf.zeros(4, tf.int64)
    with tf.GradientTape() as tape:
        value = ranking(loss, reduction="sum").loss(tf.convert_to_tensor(scores), *args)
    got = tf.convert_to_tensor(tape.gradient(value, scores)).numpy()[:, 0]
    assert got[0] < -0.01 and got[1] > 0.01 and got[3] > 0.01
    if loss in LAMBDAS:  # The weights of pairs depend on the ranks, and have no gradient.
        return
    for row, step in zip(got, 1e-5 * np.eye(4)):
        ends = [np.prod(of_one_list(loss, s, y.astype("d"), w.astype("d"))) for s in (step, -step)]
        assert row == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-4)


def test_list_mle_is_at_least_the_mean_over_the_orders_of_equal_labels():
    rng = np.random.default_rng(3)
    for spread in (0, 1, 3):
        s, y = rng.normal(0, spread, 5), np.array([2, 1, 1, 1, 0])
        means = []
        for order in itertools.permutations((1, 2, 3)):
            z = s[[0, *order, 4]]
            means.append(sum(np.log(np.exp(z[i:]).sum()) - z[i] for i in range(5)))
        (got,), _ = losses_of("list_mle", [1] * 5, s, y, np.ones(5))
        if spread:
            assert np.mean(means) < got < np.mean(means) + 0.3 * spread
        else:
            assert got == pytest.approx(np.mean(means), rel=1e-6)


@pytest.mark.parametrize("loss", [*LOSSES, *LAMBDAS])
def test_gradients_are_finite_and_zero_for_rows_without_an_order(loss):
    objective = ranking(loss)
    scores = tf.Variable(np.array([[1e4], [-1e4], [0], [3], [2]], "f"))
    for groups in ([1, 1, 2, 2, 3], [1, 2, 3, 4, 5]):
        with tf.GradientTape() as tape:
            value = objective.loss(
                tf.convert_to_tensor(scores), tf.constant([0.0, 1, 2, 2, 1]), tf.ones(5),
                tf.constant(groups, tf.int64),
            )  # fmt: skip
        gradient = tf.convert_to_tensor(tape.gradient(value, scores)).numpy()
        assert np.isfinite(gradient).all() and np.isfinite(value)
        assert not gradient[2:].any()
    assert float(value) == 0 and not gradient.any()


def test_the_loss_of_a_batch_is_the_mean_of_its_lists():
    groups, y, w = [1, 1, 2, 2, 3], [1, 0, 2, 0, 1], [1, 1, 3, 3, 9]
    z = np.array([0, 1, 0, 0, 5], "f")[:, None]
    inputs = [tf.constant(x, t) for x, t in ((z, tf.float32), (y, tf.int64), (w, tf.float32))]
    mean = (math.log(1 + math.e) + 3 * math.log(2)) / 4
    args = (*inputs, tf.constant(groups, tf.int64))
    assert float(ranking(dtype="int64").loss(*args)) == pytest.approx(mean)
    assert float(ranking(dtype="int64", reduction="sum").loss(*args)) == pytest.approx(4 * mean)


# --- Metrics -------------------------------------------------------------------------------------


def test_metrics_of_an_evaluation():
    objective = ranking(metrics=[{"ndcg": 3}, {"ndcg": 50}, "mrr", {"hit_rate": 1}])
    order = np.argsort(GROUPS, kind="stable")
    z, y, w, g = SCORES[order][:, None], GRADES[order], W[order], GROUPS[order]
    cuts = [5, 6, 23, 79]  # At ends of groups, as the input cuts batches.
    assert all(g[c] != g[c - 1] for c in cuts)
    batches = list(zip(*(np.split(x, cuts) for x in (z, y, w))))
    got = evaluate(objective, batches, groups=np.split(g, cuts))
    expected = [of_one_list("pairwise_logistic", *part) for part in lists()]
    loss, weight = np.transpose(expected)
    assert got["loss"] == pytest.approx(np.average(loss, weights=weight), rel=1e-5)
    assert got["lists"] == 4
    ordered = sum(len(s) for s, _, _ in lists())
    assert got["rows_without_order_share"] == pytest.approx(1 - ordered / (W > 0).sum())
    assert got["weight_sum"] == W.sum()
    assert got["label_mean"] == pytest.approx(np.average(GRADES, weights=W))

    ranked = []
    for name in sorted(set(GROUPS[GROUPS >= 0])):
        rows = (name == GROUPS) & (W > 0)
        if GRADES[rows].any():
            ranked.append((SCORES[rows], GRADES[rows]))
    for k in (3, 50):
        values = [ndcg_score([2**y - 1], [s], k=k) if len(s) > 1 else 1.0 for s, y in ranked]
        assert got[f"ndcg_at_{k}"] == pytest.approx(np.mean(values), rel=1e-6)
    first = [1 + np.flatnonzero(y[np.argsort(-s)])[0] for s, y in ranked]
    assert got["mrr"] == pytest.approx(np.mean(1 / np.array(first)))
    assert got["hit_rate_at_1"] == pytest.approx(np.mean(np.array(first) == 1))


def test_large_grades_do_not_overflow_in_ndcg():
    objective = ranking(metrics=[{"ndcg": 2}])
    z, y = np.array([[1], [2]], "f"), np.array([5000, 4999], "f")
    got = evaluate(objective, [(z, y, np.ones(2, "f"))], groups=[[1, 1]])
    ratio = math.log2(3)
    assert got["ndcg_at_2"] == pytest.approx((0.5 + 1 / ratio) / (1 + 0.5 / ratio))


# --- In a run ------------------------------------------------------------------------------------

DOCUMENT = {
    "features": {"x": {"dtype": "float32"}, "query": {"dtype": "int64"},
                 "w": {"dtype": "float32"}},
    "columns": {"x": {"numeric": "x"}},
    "groups": {"deep": ["x"]},
    "labels": {"grade": {"dtype": "int64", "weight": "w"}, "click": {"dtype": "int64"}},
    "objectives": {
        "grade": {"head": "ranking", "group_by": "query", "loss": "softmax",
                  "metrics": [{"ndcg": 5}]},
        "click": {"head": "binary"},
    },
}  # fmt: skip


def rows_of(queries, sizes):
    rng = np.random.default_rng(queries)
    for query in range(queries):
        offset = rng.normal(0, 10)  # The level of a query says nothing about its order.
        for _ in range(rng.integers(*sizes)):
            x = rng.normal()
            yield {
                "x": float(offset + x), "query": query, "w": 1.0 + query % 2,
                "grade": int(np.clip(round(2 + 2 * x), 0, 4)), "click": int(x > 0),
            }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranking")
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    writing.write_examples(f"{folder}/train.tfrecord", rows_of(300, (1, 9)))
    writing.write_examples(f"{folder}/eval.tfrecord", rows_of(50, (1, 9)))
    rows = list(rows_of(80, (2, 3)))
    writing.write_examples(f"{folder}/apart.tfrecord", rows[::2] + rows[1::2])
    return folder


def config(folder, **changes):
    fields = {
        "spec": f"{folder}/spec.yaml", "model": "dnn", "train_files": (f"{folder}/train.tfrecord",),
        "eval_files": (f"{folder}/eval.tfrecord",), "model_dir": f"{folder}/model", "epochs": 5,
        "batch_size": 64, "eval_batch_size": 32, "exporters": ("final",),
        "model_params": {"hidden_units": [4], "learning_rate": 0.03},
    }  # fmt: skip
    return ek.ExperimentConfig(**{**fields, **changes})


@pytest.mark.nightly
def test_a_run_learns_the_order_and_goes_on_and_serves_scores(folder):
    rows = sum(1 for _ in rows_of(300, (1, 9)))
    first = ek.run(config(folder, epochs=1, mode="train", exporters=()))
    assert first.global_step == math.ceil(rows / 64) and first.rows_trained == rows
    result = ek.run(config(folder))
    assert result.global_step == math.ceil(5 * rows / 64)
    # The first run ended with the rows; the second begins with the first row of the next epoch.
    assert result.rows_trained == 4 * rows
    assert result.metrics["ndcg_at_5/grade"] > 0.97
    assert result.metrics["group_rows_share/grade"] == 1
    assert 0 < result.metrics["rows_without_order_share/grade"] < 0.5
    loaded = tf.saved_model.load(result.export_path)
    records = [writing.example({"x": x}).SerializeToString() for x in (1.0, 2.0, 3.0)]
    scores = loaded.signatures["predict/grade"](examples=tf.constant(records))["scores"]
    assert scores.shape == (3, 1) and np.all(np.diff(scores[:, 0]) > 0)
    assert set(loaded.signatures) == {
        "serving_default", "predict_examples", "predict_raw", "predict/grade", "regress/grade",
        "predict/click", "classify/click", "regress/click",
    }  # fmt: skip


def test_a_group_by_of_what_is_ranked_may_not_change(folder, tmp_path):
    run_record.write_record(
        command_of(config(folder, model_dir=str(tmp_path))), ek.parse_spec(DOCUMENT)
    )
    changed = json.loads(json.dumps(DOCUMENT))
    changed["features"]["other"] = {"dtype": "int64"}
    changed["ignored"] = ["query"]
    changed["objectives"]["grade"]["group_by"] = "other"
    changed["objectives"]["grade"]["metrics"] = ["mrr"]
    changes = run_record.changes_since(f"{tmp_path}/feature_spec", ek.parse_spec(changed))
    assert 'objectives.grade.group_by: was "query", is "other"' in changes


def test_validation_finds_groups_that_are_apart(folder):
    def validate(name):
        settings = config(folder, mode="validate", train_files=(f"{folder}/{name}.tfrecord",),
                          validate_rows=50, model_dir=None)  # fmt: skip
        return validated_data.data_report(settings, settings, settings)

    assert "not next to a record" not in validate("train")
    with pytest.raises(ek.ConfigError, match="of the first 64 records of 1 files, 64 are not next"):
        validate("apart")


def test_records_whose_groups_are_apart_stop_a_run(folder):
    with pytest.raises(ek.DataError, match="Sort the records of each file by this feature"):
        ek.run(config(folder, train_files=(f"{folder}/apart.tfrecord",),
                      model_dir=f"{folder}/apart"))  # fmt: skip


def test_what_needs_a_group(caplog):
    with pytest.raises(ValueError, match="objective 'y' ranks groups, but got no group"):
        ranking().loss(tf.zeros([1, 1]), tf.zeros([1]), tf.ones([1]))
    with caplog.at_level(logging.ERROR), pytest.raises(NotImplementedError):
        ranking().row_losses(tf.zeros([1, 1]), tf.zeros([1]))
