"""Assigns values to variables of a graph that may be finalized or exported.

TensorFlow optimizes the whole graph for each new set of operations that a session runs. So the
functions for several variables run them together, up to a limit of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf


def assign(session: tf.compat.v1.Session, variable: Any, value: np.ndarray) -> None:
    """Feeds the initializer, as `Variable.load` does, so that the graph gets no constant."""
    session.run(variable.initializer, {variable.initializer.inputs[1]: value})


def whole_name(variable: Any) -> str:
    """The name of a variable in a checkpoint. Parts of a partitioned variable share it."""
    info = getattr(variable, "_save_slice_info", None)
    return variable.op.name if info is None else info.full_name


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
    known: dict[str, np.ndarray] = {}
    wanted = list(names)

    def read(name: str) -> np.ndarray:
        if name not in known and name in wanted:
            known.update(session.run(_small(variables, wanted)))
            wanted.clear()
        found = known.pop(name) if name in known else session.run(variables[name])
        return np.asarray(found)

    return read


def _small(variables: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The variables of these names whose values fit into memory together."""
    found, size = {}, 0
    for name in names:
        variable = variables[name]
        count = variable.shape.num_elements()
        if count is None or size + count * variable.dtype.size > _TOGETHER:
            continue
        size += count * variable.dtype.size
        found[name] = variable
    return found
