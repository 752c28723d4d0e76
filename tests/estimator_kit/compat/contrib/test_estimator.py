"""Heads and extenders of tf.contrib.estimator, with losses worked by hand."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import estimator

v1 = tf.compat.v1

EVAL, PREDICT, TRAIN = "eval", "infer", "train"


def evaluated(head, logits, labels, features=None):
    """The loss and the metrics, of one batch."""
    with tf.Graph().as_default(), v1.Session() as session:
        spec = head.create_estimator_spec(
            features={k: tf.constant(v) for k, v in (features or {}).items()},
            mode=EVAL,
            logits=logits() if callable(logits) else tf.constant(logits),
            labels=labels() if callable(labels) else labels,
        )
        session.run(
            [v1.local_variables_initializer(), v1.tables_initializer()],
        )
        updates = {name: update for name, (_, update) in spec.eval_metric_ops.items()}
        return session.run([spec.loss, updates])


def test_clips_the_global_norm():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.get_variable("x", initializer=[3.0])
        y = v1.get_variable("y", initializer=[4.0])
        optimizer = estimator.clip_gradients_by_norm(v1.train.GradientDescentOptimizer(1.0), 1.0)
        step = optimizer.minimize((x[0] ** 2 + y[0] ** 2) / 2)
        session.run(v1.global_variables_initializer())
        session.run(step)
        # The gradients are 3 and 4; their global norm is 5.
        np.testing.assert_allclose(session.run([x, y]), [[2.4], [3.2]], rtol=1e-6)
        assert optimizer.get_name() == "ClipByNormGradientDescent"


def test_multi_label_head_has_the_mean_over_the_classes():
    head = estimator.multi_label_head(2, weight_column="w", thresholds=[0.5])
    logits = np.array([[0.0, 10.0], [0.0, -10.0]], "float32")
    labels = np.array([[1, 1], [0, 1]])
    loss, metrics = evaluated(head, logits, labels, {"w": np.array([[1.0], [2.0]], "float32")})
    rows = [(np.log(2) + np.log1p(np.exp(-10))) / 2, (np.log(2) + 10 + np.log1p(np.exp(-10))) / 2]
    np.testing.assert_allclose(loss, (rows[0] + 2 * rows[1]) / 2, rtol=1e-5)
    np.testing.assert_allclose(metrics["average_loss"], (rows[0] + 2 * rows[1]) / 3, rtol=1e-5)
    # Right: both of the first row, none of the second, which counts twice.
    np.testing.assert_allclose(metrics["accuracy/positive_threshold_0.5"], 2 / 6, rtol=1e-5)


def test_multi_label_head_reads_sparse_names():
    head = estimator.multi_label_head(3, label_vocabulary=["a", "b", "c"], name="h")

    def labels():
        return tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant(["a", "c", "b"]), [2, 2])

    loss, metrics = evaluated(head, np.zeros([2, 3], "float32"), labels)
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-5)
    assert sorted(metrics) == ["auc/h", "auc_precision_recall/h", "average_loss/h"]


def two_heads():
    return estimator.multi_head(
        [estimator.binary_classification_head(name="a"), estimator.regression_head(name="b")],
        [0.5, 2.0],
    )


def test_multi_head_adds_the_weighted_losses():
    loss, metrics = evaluated(
        two_heads(),
        np.array([[0.0, 3.0], [0.0, 1.0]], "float32"),
        {"a": tf_labels([[1], [0]]), "b": tf_labels([[1.0], [1.0]])},
    )
    # The mean loss of a is log(2), and b has (4 + 0) / 2.
    np.testing.assert_allclose(loss, 0.5 * np.log(2) + 2.0 * 2.0, rtol=1e-5)
    np.testing.assert_allclose([metrics["loss/a"], metrics["loss/b"]], [np.log(2), 2.0], rtol=1e-5)


def tf_labels(values):
    return np.array(values, "float32")


def test_multi_head_exports_each_head():
    with tf.Graph().as_default():
        spec = two_heads().create_estimator_spec({}, PREDICT, tf.zeros([1, 2]))
        assert sorted(spec.export_outputs) == [
            "a", "a/classification", "a/predict", "a/regression",
            "b", "b/predict", "b/regression", "predict", "serving_default",
        ]  # fmt: skip
        assert ("a", "logits") in spec.predictions
        assert ("b", "predictions") in spec.predictions


def test_multi_head_trains_once():
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.create_global_step()
        x = v1.get_variable("x", initializer=[[0.0, 0.0]])
        spec = two_heads().create_estimator_spec(
            {}, TRAIN, x, {"a": tf.constant([[1.0]]), "b": tf.constant([[1.0]])},
            optimizer=v1.train.GradientDescentOptimizer(1.0),
        )  # fmt: skip
        session.run(v1.global_variables_initializer())
        session.run(spec.train_op)
        # The gradients are 0.5 * (sigmoid(0) - 1) and 2 * 2 * (0 - 1).
        np.testing.assert_allclose(session.run(x), [[0.25, 4.0]], rtol=1e-5)
        assert session.run(step) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: estimator.multi_head([]), "Must specify heads. Given: []"),
        (
            lambda: estimator.multi_head([estimator.regression_head(name="a")], [1.0, 2.0]),
            "heads and head_weights must have the same size. Given len(heads): 1. Given "
            "len(head_weights): 2.",
        ),
        (
            lambda: estimator.multi_label_head(3, classes_for_class_based_metrics=[5]),
            "All classes_for_class_based_metrics must be in range [0, 2]. Given: 5",
        ),
        (
            lambda: estimator.replicate_model_fn(len, devices=["/gpu:0", "/gpu:1"]),
            "replicate_model_fn: expected one device, got ['/gpu:0', '/gpu:1']. For several GPUs, "
            "give the Estimator RunConfig(train_distribute=tf.distribute.MirroredStrategy()).",
        ),
    ],
)
def test_refuses(make, message):
    with pytest.raises(ValueError) as raised:
        make()
    assert str(raised.value) == message


def test_poisson_and_logistic_heads():
    loss, _ = evaluated(
        estimator.poisson_regression_head(compute_full_loss=False),
        np.array([[0.0], [1.0]], "float32"),
        tf_labels([[1.0], [2.0]]),
    )
    # exp(logit) - label * logit
    np.testing.assert_allclose(loss, ((1 - 0) + (np.e - 2)) / 2, rtol=1e-5)
    loss, _ = evaluated(
        estimator.logistic_regression_head(), np.zeros([1, 1], "float32"), tf_labels([[0.25]])
    )
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-5)


def test_forwards_features(tmp_path):
    def model_fn(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, {"y": features["x"] * 2.0})

    def input_fn():
        words = tf.SparseTensor([[0, 0]], tf.constant(["a"]), [1, 2])
        return tf.data.Dataset.from_tensors({"x": [1.0], "id": [7], "words": words})

    plain = tf.estimator.Estimator(model_fn, str(tmp_path))

    def predict(keys, defaults=None):
        forwarding = estimator.forward_features(plain, keys, defaults)
        with tf.Graph().as_default(), v1.Session() as session:
            features = v1.data.make_one_shot_iterator(input_fn()).get_next()
            return session.run(forwarding.model_fn(features, None, PREDICT, None).predictions)

    found = predict(["id", "words"], {"words": "?"})
    assert (found["y"][0], found["id"][0]) == (2.0, 7)
    assert found["words"].tolist() == [[b"a", b"?"]]
    with pytest.raises(ValueError, match="should be a Tensor"):
        predict("words")
    with pytest.raises(ValueError, match='"nope" is not in features'):
        predict("nope")
