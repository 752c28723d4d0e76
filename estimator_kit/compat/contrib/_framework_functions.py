"""Functions of tf.contrib.framework that TensorFlow no longer has, as in 1.15."""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import confusion_matrix
from tensorflow.python.util import nest

__all__ = [
    "assert_scalar_int",
    "get_placeholders",
    "py_func",
    "reduce_sum_n",
    "remove_squeezable_dimensions",
    "with_same_shape",
    "with_shape",
]


def assert_scalar_int(tensor: Any, name: Optional[str] = None) -> Any:
    """The tensor, if it is a scalar of an integer type.

    Raises:
      ValueError: it is not.
    """
    with tf.name_scope(name, "assert_scalar_int", [tensor]):
        tensor = tf.convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise ValueError(f"{tensor.name}: expected an integer type, got {tensor.dtype.name}")
        return tf.debugging.assert_scalar(tensor)


def get_placeholders(graph: tf.Graph) -> list[Any]:
    """The tensors of the placeholders of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def reduce_sum_n(tensors: list[Any], name: Optional[str] = None) -> Any:
    """The sum of all values of the tensors.

    Raises:
      ValueError: no tensor is given.
    """
    if not tensors:
        raise ValueError("tensors: expected at least one, got none")
    with tf.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(tensor, name=f"{tensor.op.name}/sum") for tensor in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)


def remove_squeezable_dimensions(
    predictions: Any, labels: Any, name: Optional[str] = None
) -> tuple[Any, Any]:
    """Predictions and labels; the last dimension of the one with the higher rank is removed."""
    with tf.name_scope(name, "remove_squeezable_dimensions", [predictions, labels]):
        labels, predictions = confusion_matrix.remove_squeezable_dimensions(labels, predictions)
        return predictions, labels


def with_shape(expected_shape: Any, tensor: Any) -> Any:
    """The tensor with a static shape; -1 is any size.

    Raises:
      ValueError: the static shape is another.
      tf.errors.InvalidArgumentError: at run time, the shape is another.
    """
    if tf.is_tensor(expected_shape):
        matches = tf.reduce_all(
            tf.logical_or(tf.equal(expected_shape, -1), tf.equal(tf.shape(tensor), expected_shape))
        )
        message = ["Wrong shape for", tensor.name, "expected and got:"]
        check = tf.debugging.Assert(matches, [*message, expected_shape, tf.shape(tensor)])
        with tf.control_dependencies([check]):
            return tf.identity(tensor)
    shape = [None if size == -1 else int(size) for size in expected_shape]
    if not shape and tensor.shape.is_compatible_with([1]):
        return tf.reshape(tensor, [])
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(f"{tensor.name}: expected the shape {shape}, got {tensor.shape}")
    return tensor if tensor.shape.is_fully_defined() else tf.ensure_shape(tensor, shape)


def with_same_shape(expected_tensor: Any, tensor: Any) -> Any:
    """The tensor with the shape of another one; see `with_shape`."""
    with tf.name_scope("with_same_shape", values=[expected_tensor, tensor]):
        shape = expected_tensor.shape
        if shape.is_fully_defined():
            return with_shape(shape.as_list(), tensor)
        return with_shape(tf.shape(expected_tensor), tensor)


def py_func(
    func: Callable[..., Any],
    args: Any = (),
    kwargs: Optional[dict[str, Any]] = None,
    output_types: Any = None,
    output_shapes: Any = None,
    stateful: bool = True,
    name: Optional[str] = None,
) -> Any:
    """`tf.py_func` for keyword arguments and nested results.

    Args:
      output_types: the types of the result of `func`, nested as the result is; or a function of
        `args` and `kwargs` that returns them.
      output_shapes: the shapes, in the same way; optional.
    """
    kwargs = kwargs or {}
    types = output_types(*args, **kwargs) if callable(output_types) else output_types
    shapes = output_shapes(*args, **kwargs) if callable(output_shapes) else output_shapes
    inputs = (args, kwargs)

    def call(*values: Any) -> list[Any]:
        given, named = nest.pack_sequence_as(inputs, values)
        result = func(*given, **named)
        nest.assert_shallow_structure(types, result)
        return list(nest.flatten(result))

    results = tf.py_func(call, nest.flatten(inputs), nest.flatten(types), stateful, name)
    if shapes is not None:
        for result, shape in zip(results, nest.flatten_up_to(types, shapes)):
            result.set_shape(shape)
    return nest.pack_sequence_as(types, results)
