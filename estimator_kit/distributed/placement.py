"""Which parameter server keeps which variable, and which process runs an op.

Every trainer builds the same graph and places its variables in the order in which they are made, so
all come to the same. A variable goes to the server with the fewest bytes so far; the slots of an
optimizer are beside their variable, which TensorFlow sees to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_kit.config.cluster import ClusterView


class LeastLoaded:
    """A `ps_strategy` of `tf.compat.v1.train.replica_device_setter`: the greedy one, by size.

    Of variables of 4, 3 and 2 MiB on two servers the first gets 4, the second 3 and 2.

    Args:
      servers: how many there are.
    """

    def __init__(self, servers: int):
        self.bytes = [0] * servers

    def __call__(self, op: Any) -> int:
        server = self.bytes.index(min(self.bytes))
        self.bytes[server] += size_of(op)
        return server


def size_of(op: Any) -> int:
    """Bytes of the variable that an op makes; an axis of unknown length counts as 1.

    A hash table, which has no shape until it is filled, is 1.
    """
    if "shape" not in op.node_def.attr:
        return 1
    dims = [dim.size if dim.size > 0 else 1 for dim in op.get_attr("shape").dim]
    count = 1
    for dim in dims:
        count *= dim
    return max(1, count * (tf.as_dtype(op.get_attr("dtype")).size or 1))


def device_fn(view: ClusterView) -> Callable[[Any], Any]:
    """The device of each op of a training graph: variables on the ps, the rest in this process.

    A new one for each graph: it counts what it has placed.
    """
    setter = tf.compat.v1.train.replica_device_setter(
        ps_tasks=len(view.ps),
        worker_device=f"/job:{view.task_type}/task:{view.task_index}",
        ps_strategy=LeastLoaded(len(view.ps)),
    )

    def place(op: Any) -> Any:
        return setter(op)

    return place


def device_filters(view: ClusterView) -> list[str]:
    """The tasks that a session has to do with: the ps and itself. Others may come and go."""
    return ["/job:ps", f"/job:{view.task_type}/task:{view.task_index}"]
