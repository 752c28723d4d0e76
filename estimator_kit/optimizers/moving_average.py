"""Moving averages of weights: training uses the weights, and everything else the averages.

    make, update        in the training graph: make the averages, and update them in each step
    AveragedSaver       in the graphs of evaluation, prediction and export: restores the averages
                        into the weights

A checkpoint contains both. The name of an average is the name of the weight followed by
`/ExponentialMovingAverage`. An export contains only the averages, under the names of the weights.

Values are assigned to variables of a graph that may be finalized or exported. TensorFlow optimizes
the whole graph for each new set of operations that a session runs. So the functions for several
variables run them together, up to a limit of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.errors import CheckpointError


def assign(session: tf.compat.v1.Session, variable: Any, value: np.ndarray) -> None:
    """Feeds the initializer, as `Variable.load` does, so that the graph gets no constant."""
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})


def whole_name(variable: Any) -> str:
    """The name of a variable in a checkpoint. Parts of a partitioned variable share it."""
    info = getattr(variable, "_save_slice_info", None)
    result: str = variable.op.name if info is None else info.full_name
    return result


def whole_shape(variable: Any) -> Any:
    """The shape of a variable in a checkpoint; see `whole_name`."""
    info = getattr(variable, "_save_slice_info", None)
    return variable.shape if info is None else info.full_shape


def own_values(variable: Any, value: np.ndarray) -> np.ndarray:
    """The part of a value in a checkpoint that belongs to a part of a partitioned variable."""
    info = getattr(variable, "_save_slice_info", None)
    if info is None:
        return value
    return value[tuple(slice(at, at + n) for at, n in zip(info.var_offset, info.var_shape))]


# Bytes of values that are in memory together. Larger variables are assigned and read alone.
_TOGETHER = 64 * 2**20


def assign_all(
    session: tf.compat.v1.Session,
    variables: Mapping[str, Any],
    values: Iterable[tuple[str, np.ndarray]],
) -> None:
    """Assigns values to variables by name, as `assign` does."""
    runs: list[Any] = []
    feeds: dict[str, np.ndarray] = {}
    size = 0

    def flush() -> None:
        if runs:
            session.run(runs, feeds)
        runs.clear()
        feeds.clear()

    for name, value in values:
        initializer = variables[name].initializer
        fed = initializer.inputs[1].name
        # A weight and its moving average may share the tensor with the start value.
        if fed in feeds or size + value.nbytes > _TOGETHER:
            flush()
            size = 0
        runs.append(initializer)
        feeds[fed] = value
        size += value.nbytes
    flush()


def reader(
    session: tf.compat.v1.Session, variables: Mapping[str, Any], names: Iterable[str]
) -> Callable[[str], np.ndarray]:
    """A function that returns the value of a variable by its name.

    Args:
      session, variables: of the graph.
      names: the variables that are probably read. Small ones are read together, at the first call.
    """
    small_values: dict[str, np.ndarray] = {}
    wanted = list(names)

    def read(name: str) -> np.ndarray:
        if name not in small_values and name in wanted:
            small_values.update(session.run(_small(variables, wanted)))
            wanted.clear()
        value = small_values.pop(name) if name in small_values else session.run(variables[name])
        return np.asarray(value)

    return read


def _small(variables: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The variables of these names whose values fit into memory together."""
    small_variables, size = {}, 0
    for name in names:
        variable = variables[name]
        count = variable.shape.num_elements()
        if count is None or size + count * variable.dtype.size > _TOGETHER:
            continue
        size += count * variable.dtype.size
        small_variables[name] = variable
    return small_variables


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
