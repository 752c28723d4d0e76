"""Canned models: all of them train, evaluate, predict and export; the main ones also learn."""

import numpy as np
import pytest
import tensorflow as tf

from tests.estimator_kit.compat import models


def adam():
    """A rate at which small networks learn the data in 200 steps."""
    return tf.keras.optimizers.legacy.Adam(0.05)


def adam_v1():
    """The same for the v1 models, which do not take Keras optimizers."""
    return tf.compat.v1.train.AdamOptimizer(0.05)


CLASSIFIERS = {
    "LinearClassifier": lambda wide, deep, **kwargs: tf.estimator.LinearClassifier(
        wide + deep[:1], **kwargs
    ),
    "DNNClassifier": lambda wide, deep, **kwargs: tf.estimator.DNNClassifier(
        [16, 8], deep, optimizer=adam, **kwargs
    ),
    "DNNLinearCombinedClassifier": lambda wide, deep, **kwargs: (
        tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide,
            dnn_feature_columns=deep,
            dnn_hidden_units=[16, 8],
            dnn_optimizer=adam,
            **kwargs,
        )
    ),
    "v1 LinearClassifier": lambda wide, deep, **kwargs: tf.compat.v1.estimator.LinearClassifier(
        wide + deep[:1], **kwargs
    ),
    "v1 DNNClassifier": lambda wide, deep, **kwargs: tf.compat.v1.estimator.DNNClassifier(
        [16, 8], deep, optimizer=adam_v1, **kwargs
    ),
    "v1 DNNLinearCombinedClassifier": lambda wide, deep, **kwargs: (
        tf.compat.v1.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide,
            dnn_feature_columns=deep,
            dnn_hidden_units=[16, 8],
            dnn_optimizer=adam_v1,
            **kwargs,
        )
    ),
}

REGRESSORS = {
    "LinearRegressor": lambda dir, wide, deep: tf.estimator.LinearRegressor(wide, model_dir=dir),
    "DNNRegressor": lambda dir, wide, deep: tf.estimator.DNNRegressor([4], deep, model_dir=dir),
    "DNNLinearCombinedRegressor": lambda dir, wide, deep: tf.estimator.DNNLinearCombinedRegressor(
        model_dir=dir,
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[4],
    ),
    # The v2 baselines fail with a tf.data.Dataset, also on TensorFlow 2.15.
    "v1 BaselineRegressor": lambda dir, wide, deep: tf.compat.v1.estimator.BaselineRegressor(
        model_dir=dir
    ),
}


# The combined models also contain these.
PARTS = {
    *("LinearClassifier", "DNNClassifier", "v1 LinearClassifier", "v1 DNNClassifier"),
    *("LinearRegressor", "DNNRegressor"),
}


def level(name):
    """The marks of the tests of a canned model."""
    return pytest.param(name, marks=pytest.mark.nightly if name in PARTS else pytest.mark.ci)


@pytest.mark.parametrize("name", [level(name) for name in CLASSIFIERS])
def test_classifier(name, tmp_path):
    estimator = CLASSIFIERS[name](
        *models.columns(),
        model_dir=str(tmp_path / "model"),
        config=tf.estimator.RunConfig(tf_random_seed=1),
    )
    estimator.train(models.input_fn, max_steps=200)
    metrics = estimator.evaluate(models.once)
    assert metrics["global_step"] == 200
    assert metrics["auc"] > 0.9
    probabilities = [p["probabilities"] for p in estimator.predict(models.once)]
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1, rtol=1e-5)

    path = estimator.export_saved_model(str(tmp_path / "export"), models.serving_receiver)
    signatures = tf.saved_model.load(path.decode()).signatures
    assert {"serving_default", "classification", "predict"} <= set(signatures)
    features, _ = models.data()
    rows = [models.example(list(x), w[0]) for x, w in zip(features["x"], features["word"])]
    served = signatures["predict"](examples=tf.constant(rows))
    np.testing.assert_allclose(served["probabilities"], probabilities, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [level(name) for name in REGRESSORS])
def test_regressor(name, tmp_path):
    estimator = REGRESSORS[name](str(tmp_path), *models.columns())
    estimator.train(models.input_fn, max_steps=20)
    assert estimator.evaluate(models.once)["global_step"] == 20
    assert len([p["predictions"] for p in estimator.predict(models.once)]) == models.ROWS


def test_baseline_classifier_predicts_the_share_of_ones(tmp_path):
    estimator = tf.compat.v1.estimator.BaselineClassifier(model_dir=str(tmp_path))
    estimator.train(models.input_fn, max_steps=200)
    _, label = models.data()
    probability = next(iter(estimator.predict(models.once)))["logistic"]
    assert probability[0] == pytest.approx(label.mean(), abs=0.1)


def test_k_means_finds_two_clouds(tmp_path):
    points = np.concatenate([np.zeros((8, 1)), np.full((8, 1), 10.0)]).astype(np.float32)
    estimator = tf.compat.v1.estimator.experimental.KMeans(2, model_dir=str(tmp_path), seed=1)
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": points}).repeat(20))
    np.testing.assert_allclose(np.sort(estimator.cluster_centers(), axis=0), [[0], [10]], atol=0.1)


@pytest.mark.ci
def test_linear_sdca(tmp_path):
    optimizer = tf.estimator.experimental.LinearSDCA(
        example_id_column="id", symmetric_l2_regularization=0.1
    )
    estimator = tf.estimator.LinearClassifier(
        models.columns()[1][:1], model_dir=str(tmp_path), optimizer=optimizer
    )

    def rows():
        features, label = models.data()
        features = {**features, "id": np.arange(models.ROWS).astype(str)}
        return tf.data.Dataset.from_tensor_slices((features, label)).repeat().batch(models.ROWS)

    estimator.train(rows, max_steps=20)
    assert estimator.evaluate(rows, steps=1)["auc"] > 0.95


@pytest.mark.nightly
def test_rnn_classifier(tmp_path):
    column = tf.feature_column.sequence_numeric_column("values")
    estimator = tf.estimator.experimental.RNNClassifier(
        [column], units=[4], cell_type="gru", model_dir=str(tmp_path)
    )

    def rows():
        values = tf.sparse.from_dense(np.arange(1.0, 13.0, dtype=np.float32).reshape(4, 3))
        label = np.array([[0], [0], [1], [1]])
        return tf.data.Dataset.from_tensors(({"values": values}, label)).repeat(5)

    estimator.train(rows)
    assert estimator.evaluate(rows)["global_step"] == 5


# Keras 2.15 warns about what model_to_estimator calls.
@pytest.mark.filterwarnings("ignore:.tf.keras.backend.set_learning_phase")
@pytest.mark.filterwarnings("ignore:.Model.state_updates")
def test_model_to_estimator(tmp_path):
    keras = tf.keras
    model = keras.Sequential([keras.layers.Dense(1, activation="sigmoid", input_shape=(2,))])
    model.compile(keras.optimizers.legacy.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])
    estimator = keras.estimator.model_to_estimator(keras_model=model, model_dir=str(tmp_path))

    def rows():
        return models.input_fn().map(lambda features, label: (features["x"], label))

    estimator.train(rows, max_steps=100)
    assert estimator.evaluate(rows, steps=4)["accuracy"] > 0.9


@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam", "Ftrl", "RMSProp", "SGD"])
def test_optimizers_by_name(optimizer, tmp_path):
    estimator = tf.estimator.DNNClassifier(
        [4], models.columns()[1], model_dir=str(tmp_path), optimizer=optimizer
    )
    estimator.train(models.input_fn, max_steps=2)
    assert estimator.get_variable_value("global_step") == 2


def test_keras_optimizer_that_is_not_legacy_is_refused(tmp_path):
    estimator = tf.estimator.DNNClassifier(
        [4],
        models.columns()[1],
        model_dir=str(tmp_path),
        optimizer=tf.keras.optimizers.Adam(0.01),
    )
    with pytest.raises(ValueError, match=r"tf\.keras\.optimizers\.legacy\.Optimizer"):
        estimator.train(models.input_fn, max_steps=2)


@pytest.mark.nightly
def test_batch_norm_and_dropout(tmp_path):
    estimator = tf.estimator.DNNClassifier(
        [4], models.columns()[1], model_dir=str(tmp_path), batch_norm=True, dropout=0.5
    )
    estimator.train(models.input_fn, max_steps=2)
    assert estimator.evaluate(models.once)["global_step"] == 2
    assert any("moving_variance" in name for name in estimator.get_variable_names())


@pytest.mark.nightly
def test_add_metrics(tmp_path):
    estimator = tf.estimator.LinearClassifier(models.columns()[0], model_dir=str(tmp_path))

    def more(labels, predictions):
        metric = tf.keras.metrics.Mean()
        metric.update_state(labels)
        return {"share": metric}

    estimator = tf.estimator.add_metrics(estimator, more)
    estimator.train(models.input_fn, max_steps=2)
    _, label = models.data()
    assert estimator.evaluate(models.once)["share"] == pytest.approx(label.mean())
