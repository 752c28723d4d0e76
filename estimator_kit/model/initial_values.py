"""Start values of a new training: the model's own values, then pretrained vectors, then a warm
start, and last the `init_fn` of `ModelFn.scaffold`.

The values are assigned when the session starts, after the initializers and before the first
checkpoint. They are not part of a graph or an export. A training that
continues from a checkpoint does not read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Optional, Protocol

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import pretrained_tables
from estimator_kit.model.own_session import merged, run_init_fn
from estimator_kit.optimizers.moving_average import (
    assign_all,
    average_name,
    own_values,
    reader,
    whole_name,
    whole_shape,
)
from feature_specs.errors import nearest
from feature_specs.spec import FeatureSpec

_NONE: Mapping[str, Any] = MappingProxyType({})


class OlderModel(Protocol):
    """The values that a warm start takes from an older model, such as a `WarmStart`."""

    @property
    def checkpoint(self) -> str:
        """The path prefix of the older model's checkpoint."""

    @property
    def restored(self) -> frozenset[str]:
        """The names of variables that are taken completely."""

    @property
    def remapped(self) -> frozenset[str]:
        """The names of variables that are taken in part."""

    @property
    def tables(self) -> frozenset[str]:
        """The names of tensors of the model's own tables."""

    def values(self, current: Callable[[str], np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """Yields (name, value) of each variable. `current(name)` gives the value of new places."""


def checked_values(model: str, values: Any) -> Mapping[str, np.ndarray]:
    """The result of `ModelFn.first_values`, compared with the variables of the current graph.

    Raises:
      ConfigError: a variable does not exist, or has another shape or no numbers.
    """
    place = f"{model}.first_values"
    if not isinstance(values, Mapping):
        raise ConfigError(f"{place}: expected {{variable: array}}, got {values!r}. Return a dict.")
    variables = {v.op.name: (v.shape, v.dtype) for v in tf.compat.v1.global_variables()}
    for v in tf.compat.v1.global_variables():  # A partitioned variable, and each of its parts.
        variables[whole_name(v)] = (tf.TensorShape(whole_shape(v)), v.dtype)
    arrays = {}
    for name, value in values.items():
        if name not in variables:
            raise ConfigError(
                f"{place}: the model has no variable {name!r}{nearest(str(name), variables) or '.'}"
                f" Use one of: {', '.join(sorted(variables))}."
            )
        array, (shape, dtype) = np.asarray(value), variables[name]
        dtype = dtype.base_dtype
        if not shape.is_compatible_with(array.shape):
            raise ConfigError(
                f"{place}: expected the shape {shape.as_list()} for {name}, got "
                f"{list(array.shape)}. Return an array with the shape of the variable."
            )
        if not np.can_cast(array.dtype, dtype.as_numpy_dtype, "same_kind"):
            raise ConfigError(
                f"{place}: expected {dtype.name} for {name}, got {array.dtype}. Return an array "
                "of the variable's type."
            )
        arrays[name] = array
    return arrays


def scaffold(
    spec: FeatureSpec,
    warm_start: Optional[OlderModel],
    own: Mapping[str, np.ndarray] = _NONE,
    own_scaffold: Optional[Any] = None,
) -> Optional[Any]:
    """The Scaffold of a training graph, or None if only the initializers set start values.

    Args:
      spec: the feature spec, for its pretrained vectors.
      warm_start: the values from another model, or None.
      own: the model's own start values, as arrays by variable name.
      own_scaffold: the result of `ModelFn.scaffold`. Its `init_fn` runs last.
    """
    of_model = own_scaffold._user_init_fn if own_scaffold is not None else None
    restored = warm_start.restored if warm_start is not None else frozenset()
    tables = pretrained_tables.tables(spec, restored)
    load_tables = None
    if warm_start is not None:
        load_tables = _loader(warm_start.tables) if warm_start.tables else None
    if not tables and warm_start is None and not own and of_model is None:
        return merged(own_scaffold)

    def load(used: Any, session: tf.compat.v1.Session) -> None:
        graph = session.graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        variables = {variable.op.name: variable for variable in graph}
        parts: dict[str, list[Any]] = {}
        for variable in graph:
            parts.setdefault(whole_name(variable), []).append(variable)
        loaded: set[str] = set()
        assign_all(session, variables, _adding_names(_of_parts(own.items(), parts), loaded))
        for name, table in tables.items():
            pretrained_tables.load(spec, name, table, session)
            loaded.add(table.op.name)
        if warm_start is not None:
            names = [v.op.name for name in sorted(warm_start.remapped) for v in parts[name]]
            read = reader(session, variables, names)
            values = warm_start.values(lambda name: _joined(parts[name], read))
            assign_all(session, variables, _adding_names(_of_parts(values, parts), loaded))
            if load_tables is not None:
                load_tables.restore(session, warm_start.checkpoint)
        if of_model is not None:
            run_init_fn(of_model, used, session)
            # It may have changed each weight.
            loaded.update(name for name in variables if average_name(name) in variables)
        # A moving average started at the value of the initializer. Set it to the new value.
        averages = {name: average_name(name) for name in sorted(loaded)}
        names = [n for n, a in averages.items() if a in variables and a not in loaded]
        read = reader(session, variables, names)
        assign_all(session, variables, ((averages[name], read(name)) for name in names))

    return merged(own_scaffold, init_fn=load)


def _loader(names: frozenset[str]) -> Any:
    """A Saver of the tables of the current graph whose tensors have these names."""
    saveables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
    wanted = [table for table in saveables if {part.name for part in table.specs} <= names]
    return tf.compat.v1.train.Saver(wanted, sharded=True)


def _of_parts(
    values: Iterable[tuple[str, np.ndarray]], parts: Mapping[str, list[Any]]
) -> Iterator[tuple[str, np.ndarray]]:
    """The same values, divided among the parts of partitioned variables."""
    for name, value in values:
        if name not in parts:  # The name of one part.
            yield name, value
        for variable in parts.get(name, ()):
            yield variable.op.name, own_values(variable, value)


def _joined(parts: list[Any], read: Callable[[str], np.ndarray]) -> np.ndarray:
    """The value of a variable from the values of its parts."""
    info = getattr(parts[0], "_save_slice_info", None)
    if info is None:
        return read(parts[0].op.name)
    value = np.empty(info.full_shape, parts[0].dtype.base_dtype.as_numpy_dtype)
    for variable in parts:
        own_values(variable, value)[...] = read(variable.op.name)
    return value


def _adding_names(
    values: Iterator[tuple[str, np.ndarray]], names: set[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """The same values. It adds their names to a set."""
    for name, value in values:
        names.add(name)
        yield name, value
