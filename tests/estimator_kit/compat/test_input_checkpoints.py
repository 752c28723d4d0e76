"""CheckpointInputPipelineHook: training goes on with the next row. 2.15 has its own."""

from __future__ import annotations

import pytest

import estimator_kit.compat  # noqa: F401  # isort: skip  # before TensorFlow: which Keras
import tensorflow as tf

v1 = tf.compat.v1


def input_fn():
    return tf.data.Dataset.range(100).map(lambda x: {"x": x})


def summing(features, labels, mode):
    """Its variable `total` is the sum of the rows that it has seen."""
    total = v1.get_variable("total", initializer=tf.constant(0, tf.int64), trainable=False)
    step = v1.assign_add(v1.train.get_or_create_global_step(), 1)
    with tf.control_dependencies([v1.assign_add(total, features["x"])]):
        train = tf.group(step)
    return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=train)


def estimator(folder):
    config = tf.estimator.RunConfig(save_checkpoints_steps=2, keep_checkpoint_max=2)
    return tf.estimator.Estimator(summing, str(folder), config)


def hook_of(made, **kwargs):
    return tf.data.experimental.CheckpointInputPipelineHook(made, **kwargs)


def test_the_input_goes_on_after_the_last_row(tmp_path):
    made = estimator(tmp_path)
    for _ in range(3):
        made.train(input_fn, hooks=[hook_of(made)], steps=5)
    assert made.get_variable_value("total") == sum(range(15))
    assert (tmp_path / "checkpoint_input").exists()
    assert (tmp_path / "input.ckpt-15.index").exists()


def test_without_the_hook_the_input_starts_again(tmp_path):
    made = estimator(tmp_path)
    for _ in range(2):
        made.train(input_fn, steps=5)
    assert made.get_variable_value("total") == 2 * sum(range(5))


def test_every_namespace_has_it_and_a_wrong_policy_is_an_error(tmp_path):
    hook = tf.data.experimental.CheckpointInputPipelineHook
    assert hook.__name__ == "CheckpointInputPipelineHook"
    for namespace in (v1, tf.compat.v2):
        assert namespace.data.experimental.CheckpointInputPipelineHook is hook
    hook_of(estimator(tmp_path), external_state_policy="warn")
    with pytest.raises(ValueError, match=r"(?i)polic"):
        hook_of(estimator(tmp_path), external_state_policy="Warn")
