"""`--xla=on`: XLA compiles the dense part of a model for training.

    with compiled(on=True, model="MyModel"):
        logits = model.logits(features, mode)     # its lookups are in `outside()`

The block is a scope of `tf.xla.experimental.jit_scope`. Inside it, TensorFlow compiles what XLA can
compile, with its gradients, and runs the rest as before. Lookups in tables stay outside, because
the number of their rows differs from batch to batch, and XLA compiles each shape again. Random ops
stay outside too: XLA's draw other numbers, so the start values and dropout would differ. Names of
variables are the same, and evaluation, prediction and exports are not compiled.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.operations import PRODUCTS

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
