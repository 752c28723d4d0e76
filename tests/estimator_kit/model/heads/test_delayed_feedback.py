"""The loss of late labels: its formula, and what a training makes of data whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.exporters import saved_model
from estimator_kit.model.heads import judged_labels, losses
from estimator_kit.model.names import read_metrics
from estimator_kit.models import MODELS
from estimator_kit.retraining import gate_stage
from estimator_kit.retraining.promotion import Version
from input_pipelines.record_files import writing
from tests.estimator_kit.model.heads.test_objectives import evaluate, make
from tests.estimator_kit.small_training import batch_of

RNG = np.random.default_rng(14)
LABEL = {"dtype": "int64"}
ENTRY = {"head": "binary", "loss": {"delayed_feedback": {"elapsed": "waited", "delay": 10.0}}}


def by_numpy(z, y, t):
    """The likelihood of the paper: of a purchase after the delay t, or of none until t."""
    p, rate = 1 / (1 + np.exp(-z[:, 0].astype(float))), np.exp(z[:, 1].astype(float))
    return -np.log(np.where(y == 1, p * rate * np.exp(-rate * t), 1 - p + p * np.exp(-rate * t)))


def drawn(count):
    z = RNG.normal(size=(count, 2)).astype("f")
    y = RNG.integers(0, 2, count).astype("f")
    return z, np.stack([y, RNG.exponential(10, count).astype("f")], axis=1)


def test_the_loss_is_the_likelihood_of_the_paper():
    z, y = drawn(60)
    found = make(ENTRY, LABEL).row_losses(tf.constant(z), tf.constant(y))
    np.testing.assert_allclose(found, by_numpy(z, y[:, 0], y[:, 1] / 10), rtol=1e-4, atol=1e-5)
    zeros = losses.delayed_feedback(tf.zeros([2, 2]), tf.constant([1.0, 0.0]), tf.ones(2))
    np.testing.assert_allclose(zeros, [1.6931, 0.3799], atol=5e-5)
    # At once: a 0 says nothing. After a long time: it is as sure as in log loss.
    late = losses.delayed_feedback(tf.zeros([2, 2]), tf.zeros(2), tf.constant([0.0, 99.0])).numpy()
    assert late.tolist() == pytest.approx([0, np.log(2)], abs=1e-6)


def test_loss_and_gradient_are_finite_at_the_ends():
    z = tf.constant([[90.0, 90], [-90, -90], [90, -90], [-90, 90], [0, 0]])
    for y, t in ((0.0, 0.0), (0.0, 1e6), (1.0, 0.0), (1.0, 1e6)):
        with tf.GradientTape() as tape:
            tape.watch(z)
            loss = losses.delayed_feedback(z, tf.fill([5], y), tf.fill([5], t))
        assert np.isfinite(loss).all() and np.isfinite(tape.gradient(loss, z)).all()


def test_predictions_and_metrics():
    objective = make(ENTRY, LABEL)
    z, y = drawn(200)
    w = RNG.integers(0, 3, 200).astype("f")
    values = evaluate(objective, [(z[:70], y[:70], w[:70]), (z[70:], y[70:], w[70:])])
    expected = np.average(by_numpy(z, y[:, 0], y[:, 1] / 10), weights=w)
    assert values["loss"] == pytest.approx(expected, rel=1e-4)
    plain = evaluate(make({"head": "binary"}, LABEL), [(z[:, :1], y[:, 0], w)])
    for name in set(plain) - {"loss"}:
        assert values[name] == pytest.approx(plain[name], rel=1e-6), name
    found = objective.predictions(tf.constant(z))
    np.testing.assert_array_equal(found["logits"], z)
    np.testing.assert_allclose(found["logistic"][:, 0], 1 / (1 + np.exp(-z[:, 0])), rtol=1e-5)
    np.testing.assert_allclose(found["delay"][:, 0], 10 / np.exp(z[:, 1]), rtol=1e-5)
    assert set(objective.export_outputs(found)) == {"classify", "regress"}
    assert judged_labels(objective.config, y).tolist() == y[:, 0].tolist()


def test_models_with_one_logit_and_combinations_of_positive_losses_refuse_it():
    document = {
        "features": {"x": {"dtype": "float32"}, "waited": {"dtype": "float32"}},
        "columns": {"x": {"numeric": "x"}},
        "groups": {"deep": ["x"]},
        "labels": {"click": LABEL, "buy": LABEL},
        "objectives": {"click": {"head": "binary"}, "buy": ENTRY},
    }
    spec = feature_specs.parse(document)
    with pytest.raises(ek.ConfigError) as error:
        MODELS["esmm"](spec, {})
    assert str(error.value) == (
        "objective 'buy' has the loss delayed_feedback, but ESMMModel needs one logit for "
        "each objective. Choose another loss, or another model, such as mmoe."
    )
    towers = feature_specs.parse(
        {
            **document,
            "features": {**document["features"], "z": {"dtype": "float32"}},
            "columns": {"x": {"numeric": "x"}, "z": {"numeric": "z"}},
            "groups": {"user": ["x"], "item": ["z"]},
        }
    )
    with pytest.raises(ek.ConfigError, match="delayed_feedback, but two_tower compares the rows"):
        MODELS["two_tower"](towers, {"hidden_units": [4], "dimension": 2})
    with pytest.raises(ek.ConfigError, match="the loss of objective 'buy' may be"):
        MODELS["dnn"](spec, {"combine": "uncertainty"})


DELAYS = {
    "features": {
        "x": {"dtype": "float32"}, "hours": {"dtype": "float32"}, "truth": {"dtype": "float32"},
    },
    "columns": {"x": {"numeric": "x"}},
    "groups": {"wide": ["x"]},
    "labels": {
        name: {"dtype": "int64", "true_probability": "truth"} for name in ("late", "plain")
    },
    "objectives": {
        "late": {"head": "binary",
                 "loss": {"delayed_feedback": {"elapsed": "hours", "delay": 24.0}}},
        "plain": {"head": "binary"},
    },
}  # fmt: skip


def clicks(count, *, watched, seed):
    """Clicks at any time of the last `watched` hours, as a log shows them at its end.

    A purchase comes with the probability sigmoid(x - 1), after 40 exp(-x / 2) hours on average.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    truth = 1 / (1 + np.exp(1 - x))
    delay = rng.exponential(40 * np.exp(-x / 2))
    age = rng.uniform(0, watched, count)
    bought = rng.random(count) < truth
    seen = bought & (delay < age)
    return [
        {"x": float(x[i]), "truth": float(truth[i]), "late": int(seen[i]), "plain": int(seen[i]),
         "hours": float(delay[i] if seen[i] else age[i])}
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.nightly
def test_probabilities_are_those_of_the_truth_where_log_loss_is_too_low(tmp_path):
    spec = feature_specs.parse(DELAYS)
    model = tf.estimator.Estimator(
        MODELS["linear"](spec, {"optimizer": "adam", "learning_rate": 0.1}),
        config=tf.estimator.RunConfig(
            model_dir=str(tmp_path), tf_random_seed=1,
            save_summary_steps=None, log_step_count_steps=None,
        ),
    )  # fmt: skip
    recent = batch_of(spec, clicks(20_000, watched=72, seed=1))
    model.train(lambda: recent().cache().repeat(), steps=300)
    # A year later, all purchases have come.
    settled = batch_of(spec, clicks(20_000, watched=9000, seed=2))
    metrics = read_metrics(model.evaluate(settled, steps=1))
    assert metrics["calibration/late"] == pytest.approx(1, abs=0.05)
    assert metrics["calibration/plain"] < 0.7
    best = metrics["bayes_loss/late"]
    assert metrics["log_loss/late"] < best + 0.002
    assert metrics["loss/plain"] > best + 0.02
    # The two weights of each logit: of the class, and of the rate in units of 24 hours.
    logits = dict(zip(("late", "plain"), np.split(weights_of(model), [2], axis=1)))
    np.testing.assert_allclose(logits["late"][:, 0], [1, -1], atol=0.1)
    np.testing.assert_allclose(logits["late"][:, 1], [0.5, np.log(24 / 40)], atol=0.1)


@pytest.mark.ci
def test_an_export_needs_no_elapsed_time_and_the_gate_judges_it_as_the_evaluation(tmp_path):
    conditions = [{"metric": "log_loss/late", "max_loss": 0.0}]
    spec = feature_specs.parse({**DELAYS, "retraining": {"gate": {"conditions": conditions}}})
    model = tf.estimator.Estimator(
        MODELS["linear"](spec, {}),
        config=tf.estimator.RunConfig(
            model_dir=str(tmp_path / "model"), tf_random_seed=1,
            save_summary_steps=None, log_step_count_steps=None,
        ),
    )  # fmt: skip
    rows = clicks(500, watched=72, seed=3)
    model.train(batch_of(spec, rows), steps=3)
    metrics = read_metrics(model.evaluate(batch_of(spec, rows), steps=1))
    export = saved_model.export_saved_model(model, spec, str(tmp_path / "export"))
    examples = [writing.example({"x": row["x"]}).SerializeToString() for row in rows]
    answers = tf.saved_model.load(export).signatures["predict_examples"](
        examples=tf.constant(examples)
    )
    predicted = list(model.predict(batch_of(spec, rows, labels=False)))
    for output in ("late/logistic", "late/delay"):
        expected = [row[output] for row in predicted]
        np.testing.assert_allclose(answers[output], expected, rtol=1e-5)
    path = str(tmp_path / "rows.tfrecord")
    writing.write_examples(path, rows)
    live = Version(number=1, path=export, cycle="0001")
    found, _ = gate_stage.run(spec, export, live, [path], batch_size=100)
    assert found.passed
    judged = found.metrics["log_loss/late"].candidate
    assert judged == pytest.approx(metrics["log_loss/late"], rel=1e-5)


def weights_of(model):
    """The weights of x and the biases, [2, logits]."""
    names = model.get_variable_names()
    (x,) = (name for name in names if name.endswith("x/weights"))
    (bias,) = (name for name in names if name.endswith("bias_weights"))
    return np.stack([model.get_variable_value(x)[0], model.get_variable_value(bias)])
