"""What variables hold when a training starts from nothing: the model's own values, pretrained
vectors, then a warm start.

The values are put into the session that starts, after the initializers and before the first
checkpoint, one variable at a time. They are in no graph and in no export, and a start from a
checkpoint reads none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Optional, Protocol

import numpy as np
import tensorflow as tf

from estimator_kit.embeddings import dynamic_tables
from estimator_kit.model import pretrained_tables
from estimator_kit.optimizers.assignment import assign
from estimator_kit.optimizers.moving_average import average_name
from feature_specs.spec import FeatureSpec

_NONE: Mapping[str, Any] = MappingProxyType({})


class OlderModel(Protocol):
    """What a warm start takes from an older model; `checkpoints.warm_start.WarmStart` is one."""

    @property
    def checkpoint(self) -> str:
        """The path prefix of the older model's checkpoint."""

    @property
    def restored(self) -> frozenset[str]:
        """Names of variables that are taken whole."""

    @property
    def tables(self) -> frozenset[str]:
        """Names of tensors of dynamic embeddings."""

    @property
    def steps_back(self) -> int:
        """What their counts of steps are set back by."""

    def values(self, current: Callable[[str], np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
        """(name, value) of each variable; `current(name)` gives what new places keep."""


def scaffold(
    spec: FeatureSpec, warm_start: Optional[OlderModel], own: Mapping[str, Any] = _NONE
) -> Optional[Any]:
    """The Scaffold of a training graph, or None where the initializers are all there is.

    Args:
      spec: the feature spec, for its pretrained vectors.
      warm_start: what is taken from another model.
      own: arrays by name of variable, which the model itself gives.
    """
    restored = warm_start.restored if warm_start is not None else frozenset()
    tables = pretrained_tables.tables(spec, restored)
    load_rows = None
    if warm_start is not None and warm_start.tables:
        load_rows = dynamic_tables.loader(warm_start.tables, steps_back=warm_start.steps_back)
    if not tables and warm_start is None and not own:
        return None

    def load(_: Any, session: tf.compat.v1.Session) -> None:
        graph = session.graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        variables = {variable.op.name: variable for variable in graph}
        loaded = set(own)
        for name, value in own.items():
            assign(session, variables[name], value)
        for name, table in tables.items():
            pretrained_tables.load(spec, name, table, session)
            loaded.add(table.op.name)
        if warm_start is not None:
            for name, value in warm_start.values(lambda name: session.run(variables[name])):
                assign(session, variables[name], value)
                loaded.add(name)
            if load_rows is not None:
                load_rows(session, warm_start.checkpoint)
        # A moving average began at the initializer's value, before this one was there.
        for name in sorted(loaded):
            average = average_name(name)
            if average in variables and average not in loaded:
                assign(session, variables[average], session.run(variables[name]))

    return tf.compat.v1.train.Scaffold(init_fn=load)
