"""How training computes the dense part of a model: in which precision, and whether compiled.

`--xla=on`: XLA compiles the dense part of a model for training.

    with compiled(on=True, model="MyModel"):
        logits = model.logits(features, mode)     # its lookups are in `outside()`

The block is a scope of `tf.xla.experimental.jit_scope`. Inside it, TensorFlow compiles what XLA can
compile, with its gradients, and runs the rest as before. Lookups in tables stay outside, because
the number of their rows differs from batch to batch, and XLA compiles each shape again. Random ops
stay outside too: XLA's draw other numbers, so the start values and dropout would differ. Names of
variables are the same, and evaluation, prediction and exports are not compiled.

`--mixed_precision`: training multiplies the matrices of dense layers in 16 bits.

    with lowered("bfloat16", "MyModel"):
        logits = model.logits(features, mode)     # its dense layers call `product`

Only the products of dense layers with at least `LEAST_UNITS` outputs are computed in 16 bits, and
the products of their gradients. Variables, tables, activations, losses and metrics stay float32, so
a checkpoint does not show how it was trained. Evaluation, prediction and exports compute in
float32.

float16 has numbers from 6e-8 to 65,504, and the gradients of a mean over many rows are smaller than
that. So the rows of the left matrix, the columns of the right matrix, and the terms that they share
are scaled by powers of two, and the results are scaled back (`_in_float16`). So a large row does
not round other rows, and a result may be above 65,504. Inside one row or column, numbers that are
2^20 times smaller than the largest one are lost, also if that one is multiplied by 0. TensorFlow's
loss scaling has the same purpose, but one number for all layers, which it must try out in training
and keep in the checkpoint. bfloat16 has the range of float32, and needs no scale.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.areas.training import Training
from estimator_kit.errors import ConfigError
from estimator_kit.model.operations import PRODUCTS

# Narrower layers, such as those that make logits, take little time, and rounding would show.
LEAST_UNITS = 8

# The largest factor of a scaled row, and the largest sum of a scaled column, at most doubled by
# rounding. So their product is below 4 * 64 * 64 = 16,384, which is in the range of float16.
_SCALED = 64.0


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
    """inputs @ kernel in float16, with gradients in float16."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        of_inputs = _in_float16(upstream, kernel, transpose_b=True)
        return of_inputs, _in_float16(inputs, upstream, transpose_a=True)

    return _in_float16(inputs, kernel), gradient


def _in_float16(
    a: tf.Tensor, b: tf.Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> tf.Tensor:
    """a @ b: float32 [m, n] from float32 matrices, which are multiplied in float16.

    The result i, j is sum_k a_ik b_kj = r_i d_j sum_k (a_ik s_k / r_i) (b_kj / (s_k d_j)), with
    powers of two s_k near max_j |b_kj|, r_i near max_k |a_ik s_k|, and d_j near
    sum_k |b_kj / s_k|. If a whole row of b is 0, such as a row without weight in a gradient, its a
    therefore plays no part, however large it is.
    """
    inner_a, inner_b = (0 if transpose_a else 1), (1 if transpose_b else 0)
    terms = _power_of_two(tf.reduce_max(tf.abs(b), axis=1 - inner_b))
    a *= tf.expand_dims(terms, 1 - inner_a)
    b /= tf.expand_dims(_or_one(terms), 1 - inner_b)
    rows = _power_of_two(tf.reduce_max(tf.abs(a), axis=inner_a, keepdims=True) / _SCALED)
    columns = _power_of_two(tf.reduce_sum(tf.abs(b), axis=inner_b, keepdims=True) / _SCALED)
    low_a = tf.cast(a / _or_one(rows), tf.float16)
    low_b = tf.cast(b / _or_one(columns), tf.float16)
    low = tf.matmul(low_a, low_b, transpose_a=transpose_a, transpose_b=transpose_b)
    return tf.cast(low, tf.float32) * tf.reshape(rows, [-1, 1]) * tf.reshape(columns, [1, -1])


def _power_of_two(x: tf.Tensor) -> tf.Tensor:
    """The power of two between x / 2 and x. 0 for 0, and for the maximum of no numbers."""
    return tf.pow(2.0, tf.floor(tf.math.log(tf.maximum(x, 0.0)) / math.log(2.0)))


def _or_one(x: tf.Tensor) -> tf.Tensor:
    return tf.where(x > 0, x, tf.ones_like(x))


_COMPILING: contextvars.ContextVar[bool] = contextvars.ContextVar("compiling", default=False)

_MARK = "_XlaCompile"
_VARIABLES = ("VarHandleOp", "VarIsInitializedOp", "AssignVariableOp", "AssignSubVariableOp")
_INITIALIZER = "/Initializer/"
_PRODUCTS = (*PRODUCTS, "Conv2D")


@contextlib.contextmanager
def compiled(*, on: bool, model: str) -> Iterator[None]:
    """Compiles the dense ops of the block; without `on` it changes nothing.

    Raises:
      ConfigError: the block has no product of matrices outside of its lookups.
    """
    if not on:
        yield
        return
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    token = _COMPILING.set(True)
    try:
        with tf.xla.experimental.jit_scope(compile_ops=_is_dense):
            yield
    finally:
        _COMPILING.reset(token)
    products = [op for op in graph.get_operations()[before:] if op.type in _PRODUCTS]
    if not any(op.node_def.attr[_MARK].b for op in products):
        raise ConfigError(
            f"--xla=on: the model {model} multiplies no matrices outside of its tables, so nothing "
            "would be compiled. Remove the flag."
        )


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Keeps the ops of the block out of what is compiled."""
    if not _COMPILING.get():
        yield
        return
    with tf.xla.experimental.jit_scope(compile_ops=False):
        yield


def _is_dense(node: Any) -> bool:
    """Whether an op of the scope may be compiled."""
    is_random = "Random" in node.op or "TruncatedNormal" in node.op
    return not is_random and node.op not in _VARIABLES and _INITIALIZER not in node.name


@dataclasses.dataclass(frozen=True)
class Computing:
    """The settings of `Training`; the defaults change nothing.

    Attributes:
      precision: `bfloat16` or `float16`.
      xla: whether XLA compiles the dense part.
    """

    precision: Optional[str] = None
    xla: bool = False

    @staticmethod
    def of(settings: Training) -> Computing:
        """What the settings of a training say."""
        return Computing(settings.mixed_precision, xla=settings.xla == "on")

    @contextlib.contextmanager
    def applied(self, model: str, *, training: bool) -> Iterator[None]:
        """Computes the ops of the block so, if they train; `model` is its name, for messages."""
        if not training:
            yield
            return
        with (
            compiled(on=self.xla, model=model),
            lowered(self.precision, model),
        ):
            yield
