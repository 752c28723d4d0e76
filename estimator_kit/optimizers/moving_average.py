"""Moving averages of weights: training uses the weights, and everything else the averages.

    make, update        in the training graph: make the averages, and update them in each step
    AveragedSaver       in the graphs of evaluation, prediction and export: restores the averages
                        into the weights

A checkpoint contains both. The name of an average is the name of the weight followed by
`/ExponentialMovingAverage`. An export contains only the averages, under the names of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit.errors import CheckpointError
from estimator_kit.optimizers.assignment import assign, own_values, whole_name


def average_name(variable: str) -> str:
    """The name of a variable's moving average in a checkpoint."""
    return f"{variable}/ExponentialMovingAverage"


def make(variables: Sequence[Any]) -> dict[Any, Any]:
    """A variable for each average, by the `ref()` of its weight. Both have the same start value."""
    root = tf.compat.v1.VariableScope(tf.compat.v1.AUTO_REUSE, name="")
    with tf.compat.v1.variable_scope(root, auxiliary_name_scope=False):
        return {
            v.ref(): tf.compat.v1.get_variable(
                average_name(v.op.name), initializer=v.initial_value, trainable=False
            )
            for v in variables
        }


def update(averages: Mapping[Any, Any], decay: float, step: Any) -> tf.Operation:
    """average += (1 - d) (weight - average), with d = min(decay, (1 + step) / (10 + step)).

    The decay is smaller in the first steps, as in
    `tf.train.ExponentialMovingAverage(num_updates=)`, so that the average forgets the initial
    weights sooner. Each step reads and writes complete tables. With a large embedding table, this
    takes longer than the rest of the step.
    """
    done = tf.cast(step.read_value(), tf.float32)
    change = 1 - tf.minimum(decay, (1 + done) / (10 + done))
    return tf.group(
        *(
            average.assign_add(
                tf.cast(change, average.dtype) * (ref.deref().read_value() - average.read_value()),
                read_value=False,
            )
            for ref, average in averages.items()
        )
    )


class AveragedSaver(tf.compat.v1.train.Saver):
    """A Saver that restores averages into the weights, and saves the weights under their own names.

    Args:
      variables: the weights that have an average.
    """

    def __init__(self, variables: Sequence[Any]):
        self._averaged = {v.op.name for v in variables}
        self._assigned = {v.op.name: v for v in tf.compat.v1.global_variables()}
        tables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
        self._tables = tf.compat.v1.train.Saver(tables) if tables else None
        super().__init__(sharded=True)

    def restore(self, sess: Any, save_path: str) -> None:
        """Reads and feeds one variable after the other, so that an export contains no op for it.

        Raises:
          CheckpointError: the checkpoint has no average of a weight.
        """
        reader = tf.train.load_checkpoint(save_path)
        for name, variable in self._assigned.items():
            is_average = name in self._averaged  # Each part of a variable has its own.
            kept = average_name(name) if is_average else whole_name(variable)
            if not reader.has_tensor(kept):
                raise CheckpointError(
                    f"{save_path} has no {kept}, because it was trained without the model "
                    "parameter moving_average. Remove the parameter."
                )
            value = reader.get_tensor(kept)
            assign(sess, variable, value if is_average else own_values(variable, value))
        if self._tables is not None:
            self._tables.restore(sess, save_path)
