"""Experiment and learn_runner.run, by tf.estimator.train_and_evaluate."""

import os

import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import learn

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    w = v1.get_variable("w", initializer=1.0)
    predictions = {"y": features["x"] * w}
    if mode == learn.ModeKeys.INFER:
        exports = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(mode, predictions, export_outputs=exports)
    loss = v1.losses.mean_squared_error(labels, predictions["y"])
    optimizer = v1.train.GradientDescentOptimizer(0.25)
    step = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions, loss, step)


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": [1.0]}, [2.0])).repeat(10)


def serving_input_fn():
    x = {"x": v1.placeholder(tf.float32, [None])}
    return learn.InputFnOps(x, None, x)


def experiment_fn(config, hparams=None):
    estimator = tf.estimator.Estimator(model_fn, config=config)
    return learn.Experiment(
        estimator,
        input_fn,
        input_fn,
        train_steps=2,
        eval_steps=1,
        export_strategies=learn.make_export_strategy(serving_input_fn, exports_to_keep=1),
    )


def test_trains_evaluates_and_exports(tmp_path):
    config = learn.RunConfig(model_dir=str(tmp_path), tf_random_seed=1)
    metrics, exports = learn.run(experiment_fn, run_config=config)
    # The distance of w from 2 is halved in each of two steps: 0.25 squared.
    assert (metrics["loss"], metrics["global_step"]) == (0.0625, 2)
    folder = tmp_path / "export" / "Servo"
    assert [os.fsdecode(path) for path in exports] == [str(folder / os.listdir(folder)[0])]
    # A job that starts again after its end still has its metrics.
    again, exports = learn.run(experiment_fn, run_config=config)
    assert (again["loss"], exports) == (0.0625, None)


def test_another_schedule_is_an_error(tmp_path):
    config = learn.RunConfig(model_dir=str(tmp_path))
    with pytest.raises(ValueError, match=r"schedule: expected one of train, .*, got 'nope'"):
        learn.run(experiment_fn, run_config=config, schedule="nope")


def test_the_schedule_is_a_method(tmp_path):
    config = learn.RunConfig(model_dir=str(tmp_path))
    metrics, (export,) = learn.run(experiment_fn, run_config=config, schedule="test")
    assert metrics["global_step"] == 1
    assert os.path.exists(os.path.join(export, b"saved_model.pb"))


def test_keeps_the_newest_exports(tmp_path):
    config = learn.RunConfig(model_dir=str(tmp_path / "model"))
    experiment = experiment_fn(config)
    experiment.train()
    folder = tmp_path / "exports"
    (folder / "17").mkdir(parents=True)
    strategy = learn.make_export_strategy(serving_input_fn, exports_to_keep=1)
    made = strategy.export(experiment.estimator, str(folder))
    assert os.listdir(folder) == [os.path.basename(os.fsdecode(made))]


def test_run_config_has_the_older_arguments():
    config = learn.RunConfig(gpu_memory_fraction=0.5, num_cores=3, save_checkpoints_steps=7)
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (7, None)
    assert config.session_config.intra_op_parallelism_threads == 3
    assert config.session_config.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert learn.RunConfig().save_checkpoints_secs == 600
    assert config.replace(keep_checkpoint_max=2).keep_checkpoint_max == 2


def test_metrics_of_an_experiment_are_an_error():
    with pytest.raises(ValueError, match=r"Use tf.estimator.add_metrics, or return"):
        learn.Experiment(
            tf.estimator.Estimator(model_fn), input_fn, input_fn, eval_metrics={"a": 1}
        )


def test_run_needs_a_folder_or_a_configuration():
    with pytest.raises(ValueError, match="Must set value for `output_dir` or `run_config`"):
        learn.run(experiment_fn)
