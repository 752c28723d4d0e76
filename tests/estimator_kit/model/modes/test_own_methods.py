"""The methods that a model may override: in which order they are called, and what they change."""

from __future__ import annotations

import logging
import math
import re

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from tests.conftest import ROOT, make_rows
from tests.estimator_kit.model.test_model_fn import Constant, build
from tests.estimator_kit.small_training import batch_of
from tests.integration.own_model import CountSteps, MissedClicks
from tests.placed import without_place

ModeKeys = tf.estimator.ModeKeys
MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
METHODS = (
    "logits", "checked_labels", "example_losses", "loss", "train_op", "optimizers", "first_values",
    "scaffold", "metrics", "hooks",
)  # fmt: skip

CALLS = {
    ModeKeys.TRAIN: [
        "logits", "checked_labels", "example_losses", "loss", "train_op", "optimizers",
        "first_values", "scaffold", "hooks",
    ],
    ModeKeys.EVAL: [
        "logits", "checked_labels", "example_losses", "loss", "loss", "metrics", "hooks",
        "scaffold",
    ],
    ModeKeys.PREDICT: ["logits", "scaffold"],
}  # fmt: skip


@pytest.fixture
def spec(document):
    return feature_specs.parse(document)


def evaluated(model, mode, rows, fetches):
    """The values of fetches of an EstimatorSpec, one after the other, in a new session."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(3)
        made = build(model, mode, rows)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run([tf.compat.v1.local_variables_initializer()])
        session.run(tf.compat.v1.tables_initializer())
        return [session.run(fetched) for fetched in fetches(made)]


def test_a_loss_may_have_variables(spec):
    """Uncertainty weights (Kendall et al., 2018): exp(-s) * loss + s for each objective."""

    class Uncertain(Constant):
        def loss(self, losses):
            with tf.compat.v1.variable_scope("of_losses"):
                start = tf.constant_initializer(0.5)
                s = {n: tf.compat.v1.get_variable(n, [], initializer=start) for n in losses}
            return tf.add_n([tf.exp(-s[n]) * losses[n] + s[n] for n in losses])

    def fetches(made):
        metrics = made.eval_metric_ops
        return [
            [update for _, update in metrics.values()],
            {n: metrics[n][0] for n in ("total_loss", "loss/click", "loss/buy")},
        ]

    found = evaluated(Uncertain(spec), ModeKeys.EVAL, 40, fetches)[1]
    expected = math.exp(-0.5) * (found["loss/click"] + found["loss/buy"]) + 1
    np.testing.assert_allclose(found["total_loss"], expected, rtol=1e-6)
    with tf.Graph().as_default():
        build(Uncertain(spec), ModeKeys.TRAIN)
        trained = {v.op.name for v in tf.compat.v1.trainable_variables()}
    assert trained == {"value", "of_losses/click", "of_losses/buy"}


def test_each_mode_calls_the_methods_in_this_order(spec, monkeypatch):
    called = []

    def noting(name, method):
        def noted(self, *arguments, **named):
            called.append(name)
            return method(self, *arguments, **named)

        return noted

    for name in METHODS:
        monkeypatch.setattr(MissedClicks, name, noting(name, getattr(MissedClicks, name)))
    found = {}
    for mode in MODES:
        called.clear()
        with tf.Graph().as_default():
            build(MissedClicks(spec), mode)
        found[mode] = list(called)
    assert found == CALLS


def test_the_guide_has_this_order():
    page = (ROOT / "docs" / "guides" / "models.md").read_text("utf-8")
    found = {mode: {} for mode in MODES}
    for method, *cells in re.findall(r"^\| `(\w+)` \|(.*?)\|(.*?)\|(.*?)\|$", page, re.M):
        for mode, cell in zip(MODES, cells):
            found[mode].update({int(place): method for place in re.findall(r"\d+", cell)})
    assert {mode: [calls[i] for i in sorted(calls)] for mode, calls in found.items()} == CALLS


class Priced(Constant):
    """Computes the losses of one of two objectives: the price times the error."""

    def example_losses(self, labels, predictions, weights, features):
        error = tf.abs(tf.cast(labels["click"], tf.float32) - predictions["click/logistic"][:, 0])
        return {"click": error * features["price"][:, 0]}


def test_training_and_evaluation_use_the_same_losses_of_rows(spec):
    rows = make_rows(30)
    p = 1 / (1 + math.exp(-0.5))
    click = np.mean([math.log1p(row["price"]) * abs(row["click"] - p) for row in rows])
    bought = [row["buy"] for row in rows if row["click"]]
    buy = np.mean([-math.log(p if label else 1 - p) for label in bought])
    for mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
        (loss,) = evaluated(Priced(spec), mode, 30, lambda made: [made.loss])
        assert loss == pytest.approx(click + 0.5 * buy, rel=1e-5)

    # Uneven batches: the metric is over rows.
    model = tf.estimator.Estimator(Priced(spec))
    model.train(batch_of(spec, rows), steps=1)
    value = model.get_variable_value("value")
    metrics = model.evaluate(batch_of(spec, rows))
    p, q = 1 / (1 + np.exp(-value))
    click = np.mean([math.log1p(row["price"]) * abs(row["click"] - p) for row in rows])
    buy = np.mean([-math.log(q if label else 1 - q) for label in bought])
    own = -np.mean([math.log(p if row["click"] else 1 - p) for row in rows])
    assert metrics["example_loss/click"] == pytest.approx(click, rel=1e-5)
    assert metrics["total_loss"] == pytest.approx(click + 0.5 * buy, rel=1e-5)
    assert metrics["loss/click"] == pytest.approx(own, rel=1e-5)
    assert "example_loss/buy" not in metrics


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [("mean", (1 + 1.5) / 1.5), ("sum", 2.5), ("sum_over_batch_size", 2.5 / 3)],
)
def test_the_losses_and_their_own_weights_by_hand(document, reduction, expected):
    document["objectives"]["click"]["reduction"] = reduction
    spec = feature_specs.parse(document)

    class Weighted(Constant):
        def example_losses(self, labels, predictions, weights, features):
            return {"click": (tf.constant([1.0, 3, 5]), tf.constant([1.0, 0.5, 0]))}

        def loss(self, losses):
            return losses["click"]

    def fetches(made):
        value, update = made.eval_metric_ops["total_loss"]
        return made.loss, update, value

    loss, _, metric = evaluated(Weighted(spec), ModeKeys.EVAL, 3, fetches)
    assert loss == metric == pytest.approx(expected)


@pytest.mark.parametrize(
    ("of_click", "weight_of_click", "weight_of_buy", "expected"),
    [
        (2.0, 1.0, 1.0, 2 + 0.5 * 4),
        (2.0, 0.0, 1.0, 0.5 * 4),  # An objective without weight counts as 0, as in training.
        (2.0, 0.0, 0.0, math.nan),  # But if none has weight, nothing was measured.
        (math.nan, 1.0, 1.0, math.nan),  # Such a model must not be the best.
        (math.nan, 0.0, 1.0, 0.5 * 4),
        (math.inf, 1.0, 1.0, math.inf),
    ],
)
def test_an_undefined_loss_is_not_0(spec, of_click, weight_of_click, weight_of_buy, expected):
    class Weighted(Constant):
        def example_losses(self, labels, predictions, weights, features):
            return {
                "click": (tf.constant([of_click]), tf.constant([weight_of_click])),
                "buy": (tf.constant([4.0]), tf.constant([weight_of_buy])),
            }

    def fetches(made):
        value, update = made.eval_metric_ops["total_loss"]
        return update, value

    found = evaluated(Weighted(spec), ModeKeys.EVAL, 3, fetches)[-1]
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda labels: tf.zeros([5]), r": expected \{objective: losses\}, got .*\. Return a "
         r"dict\."),
        (lambda labels: {"clik": tf.zeros([5])}, r": the spec has no objective 'clik'\. Did you "
         r"mean 'click'\? Use one of: click, buy\."),
        (lambda labels: {"click": tf.zeros([])}, r": expected a loss for each row of 'click', "
         r"float32 \[rows\], got .*\. Do not reduce the losses, since the kit weights each row\."),
        (lambda labels: {"click": tf.cast(labels["click"], tf.float32) - tf.zeros([5, 1])},
         r": expected a loss for each row of 'click', float32 \[rows\], got .*\. A label \[rows\] "
         r"and logits \[rows, 1\] make losses \[rows, rows\]: take logits\[:, 0\]\."),
        (lambda labels: {"click": labels["clicks"]}, r": the key 'clicks' does not exist\. Did you "
         r"mean 'click'\? `labels` has the keys buy, buy/weight, click\. It was called at .*"),
    ],
)  # fmt: skip
def test_losses_that_do_not_fit_are_refused(spec, returned, message):
    class Wrong(Constant):
        def example_losses(self, labels, predictions, weights, features):
            return returned(labels)

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(Wrong(spec), ModeKeys.TRAIN)
    assert re.search(rf"Wrong\.example_losses{message}$", str(error.value), re.S), error.value


def test_one_loss_for_all_rows_is_refused_in_the_graph(spec):
    class One(Constant):
        def example_losses(self, labels, predictions, weights, features):
            one = tf.compat.v1.placeholder_with_default(tf.ones([1]), [None])
            return {"click": one}

    with pytest.raises(tf.errors.InvalidArgumentError, match="the shape of their weights"):
        evaluated(One(spec), ModeKeys.TRAIN, 5, lambda made: [made.loss])


def test_a_model_with_the_method_of_before_is_refused(spec):
    class Old(Constant):
        def training_losses(self, labels, weights):
            return {}

    with pytest.raises(ek.ConfigError) as error:
        Old(spec)
    assert str(error.value) == (
        "Old.training_losses: the kit no longer calls this method. Rename it to example_losses, "
        "which returns one loss for each row. Training and evaluation use them."
    )


def test_metrics_of_a_model_are_added(spec):
    class Measured(Constant):
        def metrics(self, labels, predictions, weights, features):
            clicks = tf.cast(labels["click"], tf.float32)
            largest = tf.keras.metrics.Mean()
            largest.update_state(features["price"])
            return {
                "error": tf.compat.v1.metrics.mean(
                    predictions["click/logistic"][:, 0] - clicks, weights["buy"]
                ),
                "price": largest,
            }

    rows = make_rows(40)
    model = tf.estimator.Estimator(Measured(spec, {"start": 0.5}))
    model.train(batch_of(spec, rows), steps=1)
    p = 1 / (1 + np.exp(-model.get_variable_value("value")[0]))
    metrics = model.evaluate(batch_of(spec, rows))
    # `buy` counts the rows with a click.
    assert metrics["error"] == pytest.approx(p - 1, abs=1e-6)
    price = np.mean([math.log1p(row["price"]) for row in rows])
    assert metrics["price"] == pytest.approx(price, rel=1e-5)


def test_hooks_of_a_model_run_in_training_and_evaluation(spec, caplog):
    model = tf.estimator.Estimator(MissedClicks(spec))
    with caplog.at_level(logging.INFO, "estimator_kit"):
        model.train(batch_of(spec, make_rows(10)), steps=2)
        model.evaluate(batch_of(spec, make_rows(10)), steps=1)
    said = [m for m in caplog.messages if m.startswith("own hook")]
    assert said == ["own hook: 2 steps of train", "own hook: 1 steps of eval"]


def test_what_is_no_hook_is_refused(spec):
    class Wrong(Constant):
        def hooks(self, mode):
            return [CountSteps]

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(Wrong(spec), ModeKeys.TRAIN)
    assert without_place(error.value) == (
        f"Wrong.hooks: expected SessionRunHook objects, got {CountSteps!r}. Return a list of "
        "objects of classes that extend tf.compat.v1.train.SessionRunHook."
    )
