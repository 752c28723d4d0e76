"""Gradients of tables as dense tensors, for the collectives of several machines.

TensorFlow's collective for sparse gradients fails ("Shape mismatch in the collective instance")
where their number of rows differs, between machines or from one step to the next: a collective has
one shape for good. The gradients of a table have as many rows as a batch has ids, and other numbers
again once equal ids are added up. A dense tensor has always one shape; the price is that each step
sends tables whole. Large ones belong on parameter servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def for_collectives(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The pairs (gradient, variable), with dense gradients where several machines reduce them.

    Elsewhere they are as they were. To be called in a replica's part of the graph.
    """
    # What MultiWorkerMirroredStrategy makes; it is no instance of that class itself.
    strategy = type(tf.distribute.get_strategy()).__name__
    if strategy != "CollectiveAllReduceStrategy":
        return list(pairs)
    return [(_dense(gradient, variable), variable) for gradient, variable in pairs]


def _dense(gradient: Any, variable: Any) -> Any:
    """A gradient with a row for each of its variable; rows of one id are added up."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
