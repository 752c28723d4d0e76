"""The metrics that a model adds: every one of TensorFlow's, with weights, and what is refused."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints.model_outline import weights_of
from tests.estimator_kit.model.test_model_fn import Constant, build
from tests.placed import without_place

v1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys

# Values for the arguments that a metric needs, by name.
ARGUMENTS = {
    "dim": 1, "k": 1, "normalizer": [[0.5]], "num_classes": 2, "precision": 0.5, "recall": 0.5,
    "sensitivity": 0.5, "specificity": 0.5, "target_class_ids": [0, 1], "threshold": 0.5,
    "thresholds": [0.3, 0.6],
}  # fmt: skip
BASES = ("Metric", "MeanMetricWrapper")


@pytest.fixture
def spec(document):
    return feature_specs.parse(document)


def needed(function):
    """The values of the arguments without defaults that `ARGUMENTS` has."""
    parameters = inspect.signature(function).parameters.values()
    return {
        p.name: ARGUMENTS[p.name]
        for p in parameters
        if p.default is p.empty and p.name in ARGUMENTS
    }


def tensorflow_metrics(labels, click, weights):
    """{name: (value, update op)} for each function of tf.compat.v1.metrics."""
    found = {}
    for name, function in inspect.getmembers(v1.metrics, callable):
        per_class = "_at_k" in name or "top_k" in name
        both = tf.concat([1 - click, click], axis=1)
        given = {
            "labels": labels if per_class else tf.cast(labels, tf.float32)[:, None],
            "predictions": both if per_class else click,
            "predictions_idx": tf.cast(click > 0.5, tf.int64),
            "values": click,
            "normalizer": tf.ones_like(click),
        }
        if name == "mean_tensor":  # It keeps the shape of its values.
            given = {"values": tf.reduce_mean(both, axis=0)}
        elif name in ("mean_iou", "mean_per_class_accuracy"):
            given |= {"labels": labels, "predictions": tf.cast(click[:, 0] > 0.5, tf.int64)}
        names = inspect.signature(function).parameters
        mine = {key: value for key, value in given.items() if key in names}
        shaped = {} if name == "mean_tensor" else {"weights": weights}
        if name == "mean_cosine_distance":
            shaped = {"weights": weights[:, None]}
        found[name] = function(**{**needed(function), **mine, **shaped})
    return found


def keras_metrics(labels, click, weights):
    """{name: updated metric} for each class of tf.keras.metrics."""
    found = {}
    for name, made in inspect.getmembers(tf.keras.metrics, inspect.isclass):
        if name in BASES:
            continue
        both = tf.concat([1 - click, click], axis=1)
        of_classes = re.search("Categorical|OneHot|TopK|F1|FBeta|KLD", name)
        truth = tf.cast(labels, tf.float32)[:, None]
        if of_classes and not name.startswith("Sparse"):
            truth = tf.one_hot(labels, 2)
        metric = made(**needed(made.__init__))
        if "values" in inspect.signature(made.update_state).parameters:
            values = tf.reduce_mean(both, axis=0) if name == "MeanTensor" else click
            sample = None if name == "MeanTensor" else weights
            metric.update_state(values, sample_weight=sample)
        else:
            scores = both if of_classes else click
            metric.update_state(truth, scores, sample_weight=weights)
        found[name] = metric
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("make", [tensorflow_metrics, keras_metrics])
def test_every_metric_of_tensorflow_is_what_it_is_without_the_kit(spec, make):
    expected = {}

    class Measured(Constant):
        def metrics(self, labels, predictions, weights, features):
            price = features["price"] / 10
            click = predictions["click/logistic"] * tf.sigmoid(price)
            made = make(labels["click"], click, tf.abs(features["price"][:, 0]))
            for name, metric in made.items():
                expected[name] = metric[0] if isinstance(metric, tuple) else metric.result()
            return {f"own/{name}": metric for name, metric in made.items()}

    with tf.Graph().as_default(), v1.Session() as session:
        made = build(Measured(spec), ModeKeys.EVAL, rows=30)
        session.run(v1.global_variables_initializer())
        session.run([v1.local_variables_initializer(), v1.tables_initializer()])
        own = {n: m for n, m in made.eval_metric_ops.items() if n.startswith("own/")}
        session.run([update for _, update in own.values()])
        found, values = session.run([{n: value for n, (value, _) in own.items()}, expected])
    names = set()
    for name, value in values.items():
        for index in np.ndindex(np.shape(value)):
            each = "/".join(["own", name, *map(str, index)])
            names.add(each)
            assert found[each] == pytest.approx(np.asarray(value)[index], rel=1e-6, nan_ok=True), (
                each
            )
    assert names == set(found) and len(values) > 25
    assert sum(value != 0 for value in found.values()) > 25

    # The kit's look at the graph, with batches of unknown size, does not stop at any of them.
    assert names <= weights_of(Measured(spec)).metrics


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_variable_and_its_update_are_a_metric(spec, use_resource):
    class Counted(Constant):
        def metrics(self, labels, predictions, weights, features):
            total = v1.get_variable(
                "total", [], tf.float32, initializer=tf.zeros_initializer(), trainable=False,
                use_resource=use_resource, collections=[v1.GraphKeys.LOCAL_VARIABLES],
            )  # fmt: skip
            return {"clicks": (total, total.assign_add(tf.reduce_sum(weights["click"])))}

    with tf.Graph().as_default(), v1.Session() as session:
        made = build(Counted(spec), ModeKeys.EVAL, rows=7)
        session.run(v1.global_variables_initializer())
        session.run([v1.local_variables_initializer(), v1.tables_initializer()])
        value, update = made.eval_metric_ops["clicks"]
        for _ in range(3):
            session.run(update)
        assert session.run(value) == 21


def test_several_updates_and_several_numbers(spec):
    def returned():
        count, add = v1.metrics.mean(2.0)
        other, also = v1.metrics.mean(4.0)
        precision = tf.keras.metrics.Precision(thresholds=[0.2, 0.7])
        precision.update_state([1.0, 0.0, 1.0], [0.9, 0.5, 0.3])
        return {"both": (tf.stack([[count, other]]), [add, also]), "precision": precision}

    class Measured(Constant):
        def metrics(self, labels, predictions, weights, features):
            return returned()

    with tf.Graph().as_default(), v1.Session() as session:
        made = build(Measured(spec), ModeKeys.EVAL, rows=5).eval_metric_ops
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        names = ["both/0/0", "both/0/1", "precision/0", "precision/1"]
        session.run([made[name][1] for name in names])
        found = session.run([made[name][0] for name in names])
    assert found == pytest.approx([2, 4, 2 / 3, 1])


def other_graph():
    with tf.Graph().as_default():
        return v1.metrics.mean(1.0)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda: {"auc/click": v1.metrics.mean(1.0)},
         r"got the metric 'auc/click', which the kit computes already\. Use another name\."),
        (lambda: {"loss": v1.metrics.mean(1.0)},
         r"got the metric 'loss', which the kit computes already\. Use another name\."),
        (lambda: {"m": v1.metrics.mean_tensor([1.0, 2.0]), "m/1": v1.metrics.mean(1.0)},
         r"got the metric 'm/1', which the kit computes already\. Use another name\."),
        (lambda: {"mine": tf.zeros([5])},
         r"expected \(value, update op\) for 'mine', where the value is numbers, got .*\. Use "
         r"tf\.compat\.v1\.metrics or an updated tf\.keras\.metrics\."),
        (lambda: {"mine": (tf.constant("a"), tf.no_op())},
         r"expected \(value, update op\) for 'mine', where the value is numbers, got .*\. Use "
         r"tf\.compat\.v1\.metrics or an updated tf\.keras\.metrics\."),
        (lambda: {"mine": (v1.placeholder(tf.float32, [None]), tf.no_op())},
         r"expected a fixed number of values for 'mine', got .*\. Reduce them to one number, or "
         r"set their shape\."),
        (lambda: {"mine": tf.keras.metrics.Mean()},
         r"the Keras metric 'mine' has no update, got .*\. Call its update_state before you return "
         r"it\."),
        (lambda: {"mine": other_graph()},
         r"the metric 'mine' belongs to another graph, got .*\. Make it in each call, and keep no "
         r"tensor in self\."),
        (lambda: None, r"expected \{name: \(value, update op\)\}, got None\. Return a dict\."),
    ],
)  # fmt: skip
def test_metrics_that_do_not_fit_are_refused(spec, returned, message):
    class Wrong(Constant):
        def metrics(self, labels, predictions, weights, features):
            return returned()

    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(Wrong(spec), ModeKeys.EVAL)
    assert re.fullmatch(rf"Wrong\.metrics: {message}", without_place(error.value), re.S), (
        error.value
    )
