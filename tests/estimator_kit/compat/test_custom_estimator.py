"""A custom model_fn: train, evaluate, predict, export, in one process."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.estimator_kit.compat import models


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    estimator = models.logistic(tmp_path_factory.mktemp("model"))
    return estimator.train(models.input_fn, max_steps=100)


def test_train_and_evaluate(trained):
    metrics = trained.evaluate(models.once)
    assert sorted(metrics) == ["accuracy", "global_step", "loss"]
    assert metrics["global_step"] == 100
    assert metrics["accuracy"] > 0.9
    assert metrics["loss"] < 0.4  # log 2 = 0.693 before training


def test_training_goes_on_where_it_stopped(trained, tmp_path):
    estimator = models.logistic(tmp_path)
    estimator.train(models.input_fn, steps=3)
    again = models.logistic(tmp_path).train(models.input_fn, steps=4)
    assert again.get_variable_value("global_step") == 7
    assert again.get_variable_names() == ["bias", "global_step", "weights"]


def test_predict_is_the_sigmoid_of_the_linear_function(trained):
    features, _ = models.data()
    weights = trained.get_variable_value("weights")
    bias = trained.get_variable_value("bias")
    expected = 1 / (1 + np.exp(-(features["x"] @ weights + bias)))
    predicted = [p["probability"] for p in trained.predict(models.once)]
    np.testing.assert_allclose(predicted, expected, rtol=1e-5)


def test_export_gives_the_same_predictions(trained, tmp_path):
    path = trained.export_saved_model(str(tmp_path), models.serving_receiver)
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    rows = [([1.0, -0.5], b"a"), ([-2.0, 0.25], b"c")]
    served = serve(examples=tf.constant([models.example(x, word) for x, word in rows]))
    x = np.array([x for x, _ in rows], np.float32)
    logits = x @ trained.get_variable_value("weights") + trained.get_variable_value("bias")
    np.testing.assert_allclose(served["probability"], 1 / (1 + np.exp(-logits)), rtol=1e-5)


@pytest.mark.nightly
def test_estimators_in_threads(tmp_path):
    failures = []

    def run(number):
        try:
            wide, deep = models.columns()
            estimator = tf.estimator.DNNLinearCombinedClassifier(
                model_dir=str(tmp_path / str(number)),
                linear_feature_columns=wide,
                dnn_feature_columns=deep,
                dnn_hidden_units=[4],
            )
            estimator.train(models.input_fn, steps=3)
            assert estimator.evaluate(models.once)["global_step"] == 3
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
