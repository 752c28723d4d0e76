"""The old path of tensorflow-estimator's modules, which libraries such as DeepCTR use."""

import contextlib
import importlib
import sys

import pytest

import estimator_kit.compat  # noqa: F401  # isort: skip  # before TensorFlow: which Keras
import numpy as np
import tensorflow as tf

from estimator_kit.compat import restored_names, versions

OLD = "tensorflow.python.estimator"


@pytest.mark.parametrize("name", restored_names.MODULES)
def test_each_old_path_has_every_name_of_the_module(name):
    old = importlib.import_module(f"{OLD}.{name}")
    now = importlib.import_module(
        "tensorflow_estimator.python.estimator." + {"keras": "keras_lib"}.get(name, name)
    )
    names = [n for n in dir(now) if not n.startswith("__")]
    assert len(names) > 2
    assert all(getattr(old, n) is getattr(now, n) for n in names)


def test_all_forms_of_import():
    import tensorflow.python.estimator.canned.head as by_dots
    from tensorflow.python import estimator as package
    from tensorflow.python.estimator import model_fn
    from tensorflow.python.estimator.canned.head import _Head

    assert by_dots._Head is package.canned.head._Head is _Head
    assert model_fn.EstimatorSpec is tf.estimator.EstimatorSpec
    importlib.import_module(f"{OLD}.estimator")  # 2.15 has it only after its import.
    assert package.estimator.EstimatorV2 is tf.estimator.Estimator


def test_what_tensorflow_2_15_does_not_have_there_is_no_module():
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{OLD}.canned.rnn'"):
        importlib.import_module(f"{OLD}.canned.rnn")


@pytest.mark.skipif(versions.read().has_own_estimator, reason="on 2.15 nothing is put in place")
def test_a_failed_installation_takes_the_paths_away(monkeypatch):
    monkeypatch.setattr(restored_names, "_OLD", "tensorflow.python.another")
    before = set(sys.modules)
    with contextlib.ExitStack() as undo:
        restored_names.install_old_paths(undo)
        assert "tensorflow.python.another.canned.head" in sys.modules
    parent = importlib.import_module("tensorflow.python")
    assert set(sys.modules) == before
    assert not hasattr(parent, "another")


def test_an_estimator_written_like_deepctrs_trains(tmp_path):
    """A custom subclass of `_Head` and optimizers by name, as in `DeepFMEstimator`."""
    from tensorflow.python.estimator.canned.head import _Head
    from tensorflow.python.estimator.canned.optimizers import get_optimizer_instance

    v1 = tf.compat.v1

    class Head(_Head):
        name = None
        logits_dimension = 1

        def create_loss(self, features, mode, logits, labels):
            return v1.losses.sigmoid_cross_entropy(
                labels, logits, reduction=v1.losses.Reduction.SUM
            )

        def create_estimator_spec(self, features, mode, logits, labels=None, train_op_fn=None):
            predictions = {"pred": tf.sigmoid(logits), "logits": logits}
            if mode == tf.estimator.ModeKeys.PREDICT:
                return tf.estimator.EstimatorSpec(mode, predictions=predictions)
            loss = self.create_loss(features, mode, logits, labels)
            return tf.estimator.EstimatorSpec(
                mode, loss=loss, predictions=predictions, train_op=train_op_fn(loss)
            )

    def model_fn(features, labels, mode):
        weight = v1.get_variable("w", shape=[1, 1], initializer=v1.zeros_initializer())
        optimizer = get_optimizer_instance("SGD", learning_rate=0.1)
        return Head().create_estimator_spec(
            features,
            mode,
            tf.matmul(features["x"], weight),
            labels,
            lambda loss: optimizer.minimize(loss, v1.train.get_global_step()),
        )

    def input_fn():
        x = np.array([[1.0], [2.0]], np.float32)
        y = np.array([[1.0], [0.0]], np.float32)
        return tf.data.Dataset.from_tensors(({"x": x}, y))

    model = tf.estimator.Estimator(model_fn, model_dir=str(tmp_path))
    model.train(input_fn)
    # At w = 0 both probabilities are 0.5: the gradient is (0.5 - 1) * 1 + (0.5 - 0) * 2 = 0.5.
    assert model.get_variable_value("w") == pytest.approx(-0.1 * 0.5)
    logits = [row["logits"][0] for row in model.predict(input_fn)]
    assert logits == pytest.approx([-0.05, -0.1])
