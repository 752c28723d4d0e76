"""ESMM and AITM, compared with NumPy; specs that they do not support; errors of labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model.session_errors import explained
from estimator_kit.models import MODELS
from estimator_kit.models.aitm import calibrator, transfer
from estimator_kit.models.task_sequence import joint_logit
from input_pipelines import input_fns
from input_pipelines.record_files import writing
from tests.estimator_kit.models.graphs import evaluate, mlp, sigmoid, softmax

X = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32)


@pytest.fixture
def make(document):
    """Makes a model over X in the place of its group; `document` can be changed before."""

    def model(name, **params):
        del document["labels"]["buy"]["weight"]
        made = MODELS[name](feature_specs.parse(document), {"hidden_units": [5, 3], **params})
        made.dense_input = lambda features, group: features
        made.outputs = {}
        made.add_output = made.outputs.__setitem__
        return made

    return model


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def run(make, name, **params):
    model = make(name, **params)
    (logits, outputs), v = evaluate(lambda x: (model.logits(x, "eval"), model.outputs), X)
    return logits, outputs, v


def test_the_logit_of_a_product():
    assert float(joint_logit(tf.zeros([1]), tf.zeros([1]))[0]) == pytest.approx(-math.log(3))
    a, b = np.meshgrid([-80.0, -3.0, 0.0, 2.0, 80.0], [-80.0, -1.0, 0.0, 5.0, 80.0])
    expected = -np.log(np.exp(-a) + np.exp(-b) + np.exp(-a - b))
    with tf.GradientTape() as tape:
        first, second = (tf.constant(x.astype(np.float32)) for x in (a, b))
        tape.watch([first, second])
        logits = joint_logit(first, second)
    close(logits, expected)
    moderate = (np.abs(a) < 10) & (np.abs(b) < 10)
    p = (sigmoid(a) * sigmoid(b))[moderate]
    close(logits.numpy()[moderate], np.log(p) - np.log1p(-p))
    for gradient, x in zip(tape.gradient(logits, [first, second]), (a, b)):
        # d logit / da = (1 - sigmoid(a)) / (1 - p); 1 - p without cancellation.
        against = np.exp(-a) + np.exp(-b) + np.exp(-a - b)
        close(gradient, (1 / (1 + np.exp(x))) * (1 + 1 / against))


def test_esmm_multiplies_the_steps(make):
    logits, outputs, v = run(make, "esmm")
    click, own = (sigmoid(mlp(X, v, f"tower_{name}/", 2)) for name in ("click", "buy"))
    close(sigmoid(logits["click"]), click)
    close(sigmoid(logits["buy"]), click * own)
    assert list(outputs) == ["buy_given_click"]
    close(outputs["buy_given_click"], own)


def test_the_order_of_tasks_may_be_another_one(make):
    logits, outputs, _ = run(make, "esmm", tasks=["buy", "click"])
    assert list(outputs) == ["click_given_buy"]
    assert (logits["click"] < logits["buy"]).all()


def attended(p, q, v, scope):
    kernels = {name: v[f"{scope}{name}/kernel"] for name in ("query", "key", "value")}
    scores = [np.sum((x @ kernels["query"]) * (x @ kernels["key"]), 1) for x in (p, q)]
    weights = softmax(np.stack(scores, 1) / math.sqrt(p.shape[1]))
    return sum(weights[:, i : i + 1] * (x @ kernels["value"]) for i, x in enumerate((p, q)))


def test_aitm_passes_on_what_the_task_before_learned(make):
    logits, outputs, v = run(make, "aitm")

    def linear(x, scope):
        return x @ v[f"{scope}/kernel"] + v[f"{scope}/bias"]

    relu = np.maximum
    z = q = X
    for i in range(2):
        z = relu(linear(z, f"tower_click/hiddenlayer_{i}"), 0)
        q = relu(linear(q, f"tower_buy/hiddenlayer_{i}"), 0)
    close(logits["click"], linear(z, "tower_click/logits"))
    passed = relu(linear(z, "tower_buy/passed_on"), 0)
    close(logits["buy"], linear(attended(passed, q, v, "tower_buy/"), "tower_buy/logits"))
    given = sigmoid(logits["buy"]) / sigmoid(logits["click"])
    close(outputs["buy_given_click"], np.minimum(given, 1))


def test_information_transfer_by_hand():
    """With equal inputs the weights are equal, and what comes out is their value."""
    found, v = evaluate(lambda x: transfer(x, x), X)
    close(found, X @ v["value/kernel"])


def test_the_calibrator_by_hand():
    before, after = np.array([[0.5], [0.2]]), np.array([[0.6], [0.1]])
    logits = [tf.constant(np.log(p / (1 - p)).astype(np.float32)) for p in (before, after)]
    np.testing.assert_allclose(calibrator(*logits), [[0.1], [0.0]], atol=1e-6)


def test_aitm_adds_the_calibrator_to_the_losses_of_the_later_task(make):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = make("aitm", calibrator=2.0)
        logits = model.logits(tf.constant(X[:2]), "train")
        predictions = {f"{name}/logits": value for name, value in logits.items()}
        labels = {name: tf.constant([1, 0]) for name in logits}
        found = model.example_losses(labels, predictions, {}, {})
        session.run(tf.compat.v1.global_variables_initializer())
        assert list(found) == ["buy"]
        losses, values = session.run((found["buy"], logits))
    click, buy = (sigmoid(values[name][:, 0]) for name in ("click", "buy"))
    expected = -np.log([buy[0], 1 - buy[1]]) + 2 * np.maximum(buy - click, 0)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["esmm", "aitm"])
def test_tasks_that_are_no_sequence_are_refused(document, name):
    model = {"esmm": "ESMMModel", "aitm": "AITMModel"}[name]

    def refused(**params):
        with pytest.raises(ek.ConfigError) as error:
            MODELS[name](feature_specs.parse(document), params)
        return str(error.value)

    assert refused() == (
        f"objective 'buy': the label 'buy' has weight: click, but {model} learns every task from "
        "all rows. Remove the weight. 'buy' must be 0 wherever the label of the task before it is "
        "0."
    )
    assert refused(tasks=["click", "by"]) == "tasks: unknown objective 'by'. Did you mean 'buy'?"
    for tasks in (["click"], ["click", "click"]):
        assert refused(tasks=tasks) == (
            f"tasks: got {', '.join(tasks)}, expected each objective of the spec once, from the "
            "first step to the last: click, buy"
        )
    document["objectives"]["buy"]["head"] = "regression"
    assert refused() == (f"objective 'buy' has the head regression, but {model} needs binary heads")
    del document["objectives"]["buy"], document["labels"]["buy"]
    assert refused() == (
        f"{model} learns a sequence of objectives, such as click and purchase, but the spec has "
        "only 'click'. Add an objective, or use another model, such as dnn."
    )


def test_a_later_step_without_the_one_before_stops_the_run(make):
    model = make("esmm")

    def check(click, buy, weights):
        labels = {"click": tf.constant(click), "buy": tf.constant(buy)}
        weights = {name: tf.constant(w) for name, w in zip(("click", "buy"), weights)}
        return tf.compat.v1.Session().run(model.checked_labels(labels, weights))

    with tf.Graph().as_default():
        good = check([1, 1, 0, 0], [1, 0, 0, 1], ([1.0] * 4, [1.0, 1.0, 1.0, 0.0]))
        assert good["buy"].tolist() == [1, 0, 0, 1]
        with pytest.raises(ek.DataError) as error, explained(model.spec, []):
            check([1, 0], [0, 1], ([1.0] * 2, [1.0] * 2))
    assert str(error.value) == (
        "label 'buy' is greater than label 'click', but task buy needs click in the same record. "
        "Correct the data or the order of tasks."
    )


def test_the_record_with_a_later_step_without_the_one_before_is_named(tmp_path):
    document = {
        "features": {"a": {"dtype": "float32"}, "seen": {"dtype": "float32"}},
        "columns": {"a": {"numeric": "a"}},
        "groups": {"deep": ["a"]},
        "labels": {"click": {"dtype": "int64"}, "buy": {"dtype": "int64", "weight": "seen"}},
        "objectives": {"click": {"head": "binary"}, "buy": {"head": "binary"}},
    }
    model = MODELS["esmm"](feature_specs.parse(document), {"hidden_units": [3]})
    row = {"a": 1.0, "seen": 1.0, "click": 1, "buy": 1}
    # A row of weight 0 may be anything.
    rows = [row, {**row, "buy": 0}, {**row, "click": 0, "seen": 0.0}, {**row, "click": 0}, row]
    path = f"{tmp_path}/a.tfrecord"
    writing.write_examples(path, rows)
    size = len(writing.example(row).SerializeToString()) + 16
    trained = tf.estimator.Estimator(model, f"{tmp_path}/model")
    for also, place in ((model, f"{path}: record 3 at byte {3 * size}: "), (None, "")):
        with pytest.raises(ek.DataError) as error, explained(model.spec, [path], model=also):
            trained.train(input_fns.train_input_fn(model.spec, [path], batch_size=5), steps=1)
        assert str(error.value) == (
            f"{place}label 'buy' is greater than label 'click', but task buy needs click in the "
            "same record. Correct the data or the order of tasks."
        )
