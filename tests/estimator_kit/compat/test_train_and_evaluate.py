"""`train_and_evaluate` in one process, with exporters and hooks."""

from pathlib import Path

import pytest
import tensorflow as tf

from tests.estimator_kit.compat import models


def run(model_dir, *, max_steps=60, exporters=(), hooks=(), config=None):
    estimator = models.logistic(
        model_dir, config=config or tf.estimator.RunConfig(save_checkpoints_steps=20)
    )
    train_spec = tf.estimator.TrainSpec(models.input_fn, max_steps=max_steps, hooks=hooks)
    eval_spec = tf.estimator.EvalSpec(
        models.once, steps=None, exporters=exporters, start_delay_secs=0, throttle_secs=0
    )
    return tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)


def versions_in(directory):
    return [path for path in Path(directory).iterdir() if (path / "saved_model.pb").exists()]


def test_local_run_with_all_exporters(tmp_path):
    receiver = models.serving_receiver
    metrics, exported = run(
        tmp_path,
        exporters=[
            tf.estimator.LatestExporter("latest", receiver, exports_to_keep=2),
            tf.estimator.FinalExporter("final", receiver),
            tf.estimator.BestExporter("best", receiver, exports_to_keep=1),
        ],
    )
    assert metrics["global_step"] == 60
    assert metrics["accuracy"] > 0.9
    assert len([path for path in exported if path]) == 3
    assert len(versions_in(tmp_path / "export" / "latest")) == 2
    assert len(versions_in(tmp_path / "export" / "final")) == 1
    assert len(versions_in(tmp_path / "export" / "best")) == 1
    events = [path.name for path in (tmp_path / "eval").iterdir()]
    assert events and all(name.startswith("events.out.tfevents") for name in events)


def test_early_stopping_by_a_function(tmp_path):
    estimator = models.logistic(tmp_path)
    hook = tf.estimator.experimental.make_early_stopping_hook(
        estimator, should_stop_fn=lambda: True, run_every_secs=None, run_every_steps=10
    )
    run(tmp_path, max_steps=1000, hooks=[hook])
    assert models.logistic(tmp_path).get_variable_value("global_step") < 100


@pytest.mark.parametrize("name", ["stop_if_no_decrease_hook", "stop_if_lower_hook"])
def test_early_stopping_by_a_metric(name, tmp_path):
    estimator = models.logistic(tmp_path)
    limit = {"stop_if_no_decrease_hook": 0, "stop_if_lower_hook": 1000.0}[name]
    hook = getattr(tf.estimator.experimental, name)(
        estimator, "loss", limit, run_every_secs=None, run_every_steps=20
    )
    run(tmp_path, max_steps=1000, hooks=[hook])
    assert models.logistic(tmp_path).get_variable_value("global_step") < 1000


def test_hooks_run(tmp_path):
    seen = []

    class Steps(tf.estimator.SessionRunHook):
        def after_run(self, run_context, run_values):
            seen.append(run_context.session.run(tf.compat.v1.train.get_global_step()))

    logging = tf.estimator.LoggingTensorHook({"probability": "Sigmoid"}, every_n_iter=5)
    estimator = models.logistic(tmp_path)
    estimator.train(models.input_fn, max_steps=10, hooks=[Steps(), logging])
    assert seen == list(range(1, 11))


@pytest.mark.nightly
def test_in_memory_evaluator(tmp_path):
    estimator = models.logistic(tmp_path)
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, models.once, every_n_iter=5)
    estimator.train(models.input_fn, max_steps=10, hooks=[hook])
    assert list((tmp_path / "eval").iterdir())


# tf.data warns when a strategy reads a dataset's options in a graph, on every TensorFlow.
@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")
@pytest.mark.nightly
def test_mirrored_strategy_on_one_device(tmp_path):
    config = tf.estimator.RunConfig(
        train_distribute=tf.distribute.MirroredStrategy(["/cpu:0"]),
        eval_distribute=tf.distribute.MirroredStrategy(["/cpu:0"]),
        save_checkpoints_steps=20,
    )
    metrics, _ = run(tmp_path, config=config)
    assert metrics["global_step"] == 60
    assert metrics["accuracy"] > 0.9


# tf.data warns when a strategy reads a dataset's options in a graph, on every TensorFlow.
@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")
@pytest.mark.nightly
def test_mirrored_strategy_with_a_canned_model(tmp_path):
    config = tf.estimator.RunConfig(
        train_distribute=tf.distribute.OneDeviceStrategy("/cpu:0"),
    )
    wide, deep = models.columns()
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=str(tmp_path),
        config=config,
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[4],
    )
    estimator.train(models.input_fn, max_steps=10)
    assert estimator.evaluate(models.once)["global_step"] == 10
