"""`--mixed_precision`: training multiplies the matrices of dense layers in 16 bits.

    with lowered("bfloat16", "MyModel"):
        logits = model.logits(features, mode)     # its dense layers call `product`

Only the products of dense layers with at least `LEAST_UNITS` outputs are computed in 16 bits, and
the products of their gradients. Variables, tables, activations, losses and metrics stay float32, so
a checkpoint does not show how it was trained. Evaluation, prediction and exports compute in
float32.

float16 has numbers from 6e-8 to 65,504, and the gradients of a mean over many rows are smaller than
that. So each product scales the gradient that it gets by a power of two, and divides its results by
the same number. Inputs above 255 are scaled too, so that the products stay in range. TensorFlow's
loss scaling has the same purpose, but one number for all layers, which it must try out in training
and keep in the checkpoint.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError

# Narrower layers, such as those that make logits, take little time, and rounding would show.
LEAST_UNITS = 8

# The largest scaled input, and the sum of a column of scaled gradients. Their product is in range.
_SCALED_INPUT = 255.0
_SCALED_SUM = 256.0


@dataclasses.dataclass
class _Lowered:
    """The type of products, and how many products have it."""

    dtype: tf.DType
    products: int = 0


_NOW: contextvars.ContextVar[Optional[_Lowered]] = contextvars.ContextVar("lowered", default=None)


@contextlib.contextmanager
def lowered(precision: Optional[str], model: str) -> Iterator[None]:
    """Computes the products of the block in `precision`; None changes nothing.

    Raises:
      ConfigError: the block has no such product, so the flag would do nothing.
    """
    if precision is None:
        yield
        return
    now = _Lowered(tf.as_dtype(precision))
    token = _NOW.set(now)
    try:
        yield
    finally:
        _NOW.reset(token)
    if not now.products:
        raise ConfigError(
            f"--mixed_precision={precision}: the model {model} has no dense layer with at least "
            f"{LEAST_UNITS} outputs, so nothing would be computed in 16 bits. Remove the flag, or "
            "make the layers with ek.dense_layer."
        )


def refuse_keras() -> None:
    """Raises ConfigError in a block of `lowered`: Keras layers do not call `product`."""
    now = _NOW.get()
    if now is not None:
        raise ConfigError(
            f"--mixed_precision={now.dtype.name}: the model has Keras layers, which compute in "
            "their own dtype. Remove the flag, or make the layers with ek.dense_layer."
        )


def product(inputs: tf.Tensor, kernel: Any) -> tf.Tensor:
    """inputs @ kernel: float32 [..., units] from float32 [..., n] and float32 [n, units]."""
    now = _NOW.get()
    if now is None or kernel.shape[1] < LEAST_UNITS:
        return tf.tensordot(inputs, kernel, 1) if inputs.shape.rank != 2 else inputs @ kernel
    now.products += 1
    if now.dtype == tf.float16:
        return _by_rows(_scaled_product, inputs, tf.convert_to_tensor(kernel))
    low = tf.cast(inputs, now.dtype), tf.cast(kernel, now.dtype)
    return tf.cast(_by_rows(tf.matmul, *low), tf.float32)


def _by_rows(
    multiply: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], inputs: tf.Tensor, kernel: tf.Tensor
) -> tf.Tensor:
    """`multiply` of two matrices, for inputs of any rank."""
    if inputs.shape.rank == 2:
        return multiply(inputs, kernel)
    n, units = kernel.shape
    rows = multiply(tf.reshape(inputs, [-1, n]), kernel)
    outputs = tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [units]], axis=0))
    outputs.set_shape([*inputs.shape[:-1], units])
    return outputs


@tf.custom_gradient
def _scaled_product(inputs: tf.Tensor, kernel: tf.Tensor) -> Any:
    """inputs @ kernel in float16, with scaled inputs and gradients."""
    shrunk = _shrunk(inputs)
    low_inputs, low_kernel = tf.cast(inputs / shrunk, tf.float16), tf.cast(kernel, tf.float16)
    outputs = tf.cast(low_inputs @ low_kernel, tf.float32) * shrunk

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        scale = _scale(upstream)
        low = tf.cast(upstream * scale, tf.float16)
        of_inputs = tf.matmul(low, low_kernel, transpose_b=True)
        of_kernel = tf.matmul(low_inputs, low, transpose_a=True)
        of_kernel = tf.cast(of_kernel, tf.float32) / scale * shrunk
        return tf.cast(of_inputs, tf.float32) / scale, of_kernel

    return outputs, gradient


def _shrunk(inputs: tf.Tensor) -> tf.Tensor:
    """The least power of two, 1 or more, that makes the largest |input| / it at most 255."""
    # Of no inputs, the maximum is -inf.
    largest = tf.maximum(tf.reduce_max(tf.abs(inputs)), 0.0) / _SCALED_INPUT
    return tf.pow(2.0, tf.maximum(0.0, tf.math.ceil(tf.math.log(largest) / math.log(2.0))))


def _scale(gradient: tf.Tensor) -> tf.Tensor:
    """The power of two with which the largest column of |gradient| adds up to 128 to 256."""
    largest = tf.reduce_max(tf.reduce_sum(tf.abs(gradient), axis=0))
    known = tf.where(largest > 0, largest, tf.ones_like(largest))
    return tf.pow(2.0, tf.floor(tf.math.log(_SCALED_SUM / known) / math.log(2.0)))
