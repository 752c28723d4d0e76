"""Which parameter server stores which variable, and which process runs an op.

Every trainer builds the same graph and places its variables in the order in which they are made. So
all trainers place them the same way. A variable goes to the server with the fewest bytes so far.
TensorFlow places the slots of an optimizer on the server of their variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_kit.config.cluster import ClusterView


class LeastLoaded:
    """A greedy `ps_strategy` by size, for `tf.compat.v1.train.replica_device_setter`.

    For example, with two servers and variables of 4, 3 and 2 MiB, the first server gets the
    variable of 4 MiB and the second server gets the other two.

    Args:
      servers: the number of servers.
    """

    def __init__(self, servers: int):
        self.bytes = [0] * servers

    def __call__(self, op: Any) -> int:
        server = self.bytes.index(min(self.bytes))
        self.bytes[server] += size_of(op)
        return server


def size_of(op: Any) -> int:
    """The size in bytes of the variable that an op makes. An axis of unknown length counts as 1.

    The size of a hash table is 1, because it has no shape until it is filled.
    """
    if "shape" not in op.node_def.attr:
        return 1
    dims = [dim.size if dim.size > 0 else 1 for dim in op.get_attr("shape").dim]
    count = 1
    for dim in dims:
        count *= dim
    return max(1, count * (tf.as_dtype(op.get_attr("dtype")).size or 1))


def device_fn(view: ClusterView) -> Callable[[Any], Any]:
    """Places the variables of a training graph on the ps, and all other ops in this process.

    Make a new function for each graph, because it counts the bytes that it has placed.
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
    """The tasks that a session talks to: the ps and its own task. Other tasks may come and go."""
    return ["/job:ps", f"/job:{view.task_type}/task:{view.task_index}"]
