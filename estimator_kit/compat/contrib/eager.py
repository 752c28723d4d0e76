"""tf.contrib.eager: eager execution as in TensorFlow 1, for programs that call
`tf.enable_eager_execution()` first."""

from __future__ import annotations

from collections.abc import Iterator as _Iterator
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.eager import backprop, context
from tensorflow.python.framework import test_util
from tensorflow.python.ops import resource_variable_ops, variable_scope

__all__ = """
    Checkpoint EagerVariableStore GradientTape Iterator Variable defun enable_eager_execution
    executing_eagerly gradients_function implicit_gradients implicit_value_and_gradients
    in_eager_mode list_devices make_template num_gpus py_func run_all_tests_in_graph_and_eager_modes
    run_test_in_graph_and_eager_modes value_and_gradients_function
""".split()

OLD_PATHS = ("python.checkpointable_utils", "python.datasets", "python.metrics", "python.tfe")

_KERAS = "Use tf.keras.Model with tf.keras.layers."

REMEDIES = {
    "Network": _KERAS,
    "Sequential": "Use tf.keras.Sequential.",
    "Saver": "Use tf.train.Checkpoint.",
    "CheckpointableSaver": "Use tf.train.Checkpoint.",
    "metrics": "Use tf.keras.metrics.",
    "restore_variables_on_create": "Use tf.train.Checkpoint.",
    "save_network_checkpoint": "Use tf.train.Checkpoint.",
}

Checkpoint = tf.train.Checkpoint
EagerVariableStore = variable_scope.EagerVariableStore
GradientTape = tf.GradientTape
Variable = resource_variable_ops.ResourceVariable
defun = tf.function
enable_eager_execution = tf.enable_eager_execution
executing_eagerly = in_eager_mode = tf.executing_eagerly
gradients_function = backprop.gradients_function
implicit_gradients = backprop.implicit_grad
implicit_value_and_gradients = backprop.implicit_val_and_grad
make_template = tf.make_template
num_gpus = context.num_gpus
py_func = tf.py_function
run_all_tests_in_graph_and_eager_modes = test_util.run_all_in_graph_and_eager_modes
run_test_in_graph_and_eager_modes = test_util.run_in_graph_and_eager_modes
value_and_gradients_function = backprop.val_and_grad_function


def Iterator(dataset: Any) -> _Iterator[Any]:  # noqa: N802
    """An iterator over a dataset, by eager execution."""
    return iter(dataset)


def list_devices() -> list[str]:
    """The names of the devices of this process."""
    return list(context.context().devices())
