"""Converts gradients of tables to dense tensors, for the collectives of several machines.

A TensorFlow collective has one fixed shape. For sparse gradients it fails ("Shape mismatch in the
collective instance") if their numbers of rows differ between machines or steps. The gradient of a
table has as many rows as a batch has ids, or fewer after equal ids are added up. A dense tensor
always has the same shape, but each step then sends complete tables. Large tables belong on
parameter servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def for_collectives(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The pairs (gradient, variable), with dense gradients if several machines reduce them.

    Otherwise the pairs are unchanged. Call this in the replica's part of the graph.
    """
    # MultiWorkerMirroredStrategy makes a strategy that is not an instance of that class.
    strategy = type(tf.distribute.get_strategy()).__name__
    if strategy != "CollectiveAllReduceStrategy":
        return list(pairs)
    return [(_dense(gradient, variable), variable) for gradient, variable in pairs]


def _dense(gradient: Any, variable: Any) -> Any:
    """A dense gradient in the shape of the variable. Rows of equal ids are added up."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
