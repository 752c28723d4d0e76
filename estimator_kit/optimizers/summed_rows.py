"""Adds up the gradients of equal ids, before anything measures, limits, averages or applies them.

    pairs = [(summed(gradient), variable) for gradient, variable in pairs]

The gradient of a table is a list of ids and rows (`tf.IndexedSlices`). An id that a batch has
several times is several times in it. Its gradient is the sum of these rows, so a norm, a limit or a
square of single rows is wrong. Only sums and scaling may come before `summed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def summed(gradient: Any) -> Any:
    """A gradient in which each id occurs once, in the order of the first occurrences.

    The ids 4, 1, 4 with the rows 2, 3 and 5 become 4 and 1 with the rows 7 and 3. A gradient that
    is dense or already summed is returned unchanged.
    """
    if not isinstance(gradient, tf.IndexedSlices) or _is_unique(gradient.indices):
        return gradient
    ids, places = tf.unique(gradient.indices)
    rows = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
    return tf.IndexedSlices(rows, ids, gradient.dense_shape)


def on_common_rows(gradients: Sequence[tf.IndexedSlices]) -> list[tf.Tensor]:
    """The rows of sparse gradients of one variable, on the union of their ids: float32 [ids, ...].

    Rows of equal ids are added up. The gradients are not converted to dense tables.
    """
    ids, place = tf.unique(tf.concat([g.indices for g in gradients], axis=0))
    places = tf.split(place, [tf.size(g.indices) for g in gradients])
    return [
        tf.math.unsorted_segment_sum(g.values, p, tf.size(ids)) for g, p in zip(gradients, places)
    ]


class SummedRows:
    """For optimizers: adds up the rows with four operations fewer than the base class."""

    def _resource_apply_sparse_duplicate_indices(
        self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        once = summed(tf.IndexedSlices(grad, indices))
        return self._resource_apply_sparse(once.values, handle, once.indices)  # type: ignore[attr-defined]


def _is_unique(ids: tf.Tensor) -> bool:
    """Whether `summed` made the ids."""
    return ids.op.type == "Unique" and ids is ids.op.outputs[0]
