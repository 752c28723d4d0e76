"""What a checkpoint of a graph contains, asked of the variables and saveables that a Saver uses.

A Saver joins the parts of a partitioned variable, as `tf.compat.v1.layers` makes them under a
partitioner, into one tensor with the name of the whole. A saveable, such as a `MutableHashTable`,
stores tensors under separate names. This module runs no session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

import tensorflow as tf
from tensorflow.python.training.saving import saveable_object_util

from estimator_kit.optimizers.moving_average import whole_name

# The shape of a tensor. None, an axis whose length changes during training, fits any length. A
# table whose shape is not known has None in the place of the axes.
Shape = Optional[tuple[Any, ...]]


class Saved(NamedTuple):
    """The tensors that a Saver stores of the current graph.

    Attributes:
      variables: the shape of each variable, with its parts joined.
      growing: the shapes of the other tensors, which belong to tables that grow.
      trainable: the names in `variables` of trainable variables.
    """

    variables: Mapping[str, Shape]
    growing: Mapping[str, Shape]
    trainable: frozenset[str]


def saved() -> Saved:
    """What a Saver would store of the current graph. It may add ops to the graph."""
    v1 = tf.compat.v1
    tables = v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)
    saveables = saveable_object_util.validate_and_slice_inputs(
        saveable_object_util.op_list_to_dict(tables)
    )
    return Saved(
        {whole_name(v): _shape_of(v) for v in v1.global_variables()},
        {part.name: _dims(part.tensor.shape) for each in saveables for part in each.specs},
        frozenset(whole_name(v) for v in v1.trainable_variables()),
    )


def _shape_of(variable: Any) -> Shape:
    info = getattr(variable, "_save_slice_info", None)
    return _dims(variable.shape) if info is None else tuple(info.full_shape)


def _dims(shape: tf.TensorShape) -> Shape:
    return None if shape.rank is None else tuple(shape.as_list())
