"""Heads inside a custom model_fn, each with a v1 optimizer in train_op_fn."""

import numpy as np
import pytest
import tensorflow as tf

from tests.estimator_kit.compat import models

v1 = tf.compat.v1


def head_model_fn(head, *, logits_dimensions, keys=None):
    """A model_fn that gives each logit of the head(s) its own linear function."""

    def model_fn(features, labels, mode):
        def linear(name, size):
            weights = v1.get_variable(name, [2, size], initializer=v1.zeros_initializer())
            return tf.matmul(features["x"], weights)

        if keys is None:
            logits = linear("weights", logits_dimensions)
        else:
            logits = {k: linear(k, n) for k, n in zip(keys, logits_dimensions)}

        def train_op_fn(loss):
            return v1.train.AdagradOptimizer(0.5).minimize(
                loss, global_step=v1.train.get_or_create_global_step()
            )

        return head.create_estimator_spec(
            features=features,
            mode=mode,
            logits=logits,
            labels=labels,
            train_op_fn=train_op_fn,
        )

    return model_fn


def estimator_of(head, tmp_path, **kwargs):
    return tf.estimator.Estimator(head_model_fn(head, **kwargs), model_dir=str(tmp_path / "model"))


def labeled(make_label):
    features, label = models.data()

    def input_fn():
        data = (features, make_label(features, label))
        return tf.data.Dataset.from_tensor_slices(data).repeat().batch(16)

    return input_fn


SINGLE = {
    "binary": (lambda: tf.estimator.BinaryClassHead(), 1, lambda f, y: y),
    "multi class": (
        lambda: tf.estimator.MultiClassHead(3),
        3,
        lambda f, y: y + (f["x"][:, :1] > 0),
    ),
    "multi label": (
        lambda: tf.estimator.MultiLabelHead(2),
        2,
        lambda f, y: (f["x"] > 0).astype(np.int64),
    ),
    "regression": (lambda: tf.estimator.RegressionHead(), 1, lambda f, y: f["x"][:, :1]),
    "logistic regression": (
        lambda: tf.estimator.LogisticRegressionHead(),
        1,
        lambda f, y: y.astype(np.float32),
    ),
    "poisson regression": (
        lambda: tf.estimator.PoissonRegressionHead(),
        1,
        lambda f, y: y.astype(np.float32),
    ),
}


@pytest.mark.parametrize(
    "name", [n if n == "binary" else pytest.param(n, marks=pytest.mark.nightly) for n in SINGLE]
)
def test_single_head(name, tmp_path):
    make, size, make_label = SINGLE[name]
    estimator = estimator_of(make(), tmp_path, logits_dimensions=size)
    rows = labeled(make_label)
    first = estimator.train(rows, max_steps=1).evaluate(rows, steps=4)
    last = estimator.train(rows, max_steps=60).evaluate(rows, steps=4)
    assert last["global_step"] == 60
    assert last["average_loss"] < first["average_loss"]


def test_binary_head_loss_by_hand(tmp_path):
    # Zero weights: the logit of every row is 0, the loss log 2 = 0.6931 whatever the label.
    estimator = estimator_of(tf.estimator.BinaryClassHead(), tmp_path, logits_dimensions=1)
    estimator.train(lambda: models.once().take(0), max_steps=1)
    estimator.train(models.input_fn, max_steps=1)
    weights = estimator.get_variable_value("weights")
    features, label = models.data()
    logit = features["x"] @ weights
    expected = np.mean(np.log1p(np.exp(-logit)) * label + np.log1p(np.exp(logit)) * (1 - label))
    assert estimator.evaluate(models.once)["average_loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.ci
def test_multi_head_with_train_op_fn(tmp_path):
    def heads():
        return tf.estimator.MultiHead(
            [
                tf.estimator.BinaryClassHead(name="click"),
                tf.estimator.RegressionHead(name="price"),
            ],
            head_weights=[1.0, 0.5],
        )

    estimator = estimator_of(heads(), tmp_path, logits_dimensions=(1, 1), keys=("click", "price"))
    rows = labeled(lambda f, y: {"click": y, "price": f["x"][:, :1]})
    estimator.train(rows, max_steps=80)
    metrics = estimator.evaluate(rows, steps=4)
    assert metrics["auc/click"] > 0.9
    assert metrics["average_loss/price"] < 0.2
    assert metrics["loss"] == pytest.approx(
        metrics["loss/click"] + 0.5 * metrics["loss/price"], rel=1e-4
    )
    prediction = next(iter(estimator.predict(rows)))
    assert ("click", "probabilities") in prediction
    assert ("price", "predictions") in prediction

    path = estimator.export_saved_model(str(tmp_path / "export"), models.serving_receiver)
    signatures = tf.saved_model.load(path.decode()).signatures
    named = {"serving_default", "predict", "click", "click/predict", "price/predict"}
    assert named <= set(signatures)
