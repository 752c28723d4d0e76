"""`Cell`: one small model of the table, and the parts of models that many cells share."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf


def linear(x: tf.Tensor, mode: str, keras: Any) -> tf.Tensor:
    """The logits of a linear model."""
    return tf.compat.v1.layers.dense(x, 1, name="linear")


def hidden(x: tf.Tensor) -> tf.Tensor:
    """float32 [rows, 4], from a hidden layer."""
    return tf.compat.v1.layers.dense(x, 4, tf.tanh, name="hidden", reuse=tf.compat.v1.AUTO_REUSE)


def to_logits(value: Any) -> tf.Tensor:
    """The logits [rows, 1] of what a layer returns, of any type and shape, or of its parts."""
    parts = [tf.cast(part, tf.float32) for part in tf.nest.flatten(value)
             if part.dtype != tf.string]  # fmt: skip
    sizes = [tf.TensorShape(part.shape[1:]).num_elements() for part in parts]
    flat = [tf.reshape(part, [-1, size]) for part, size in zip(parts, sizes)]
    return tf.compat.v1.layers.dense(tf.concat(flat, 1), 1, name="to_logits")


def _sgd() -> Any:
    return tf.compat.v1.train.GradientDescentOptimizer(0.1)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A model that uses one idiom.

    Attributes:
      family, name: of the entry of the surface.
      logits: `(x, mode, keras) -> [rows, 1]`, where x is float32 [rows, 4], and
        `keras(layer, inputs, **arguments)` calls a Keras layer.
      losses: `(y, predictions) -> [rows]`, the losses of rows, or None for the loss of the head.
      metric: `(y, predictions) -> metric`, or None.
      hooks: `mode -> hooks`, or None.
      optimizer: makes the optimizer.
      whole: whether it is a training by `ek.run`; see `run`.
      exported: whether the predictions come from an export.
    """

    family: str
    name: str
    logits: Callable[[tf.Tensor, str, Any], tf.Tensor] = linear
    losses: Optional[Callable[[tf.Tensor, Any], tf.Tensor]] = None
    metric: Optional[Callable[[tf.Tensor, Any], Any]] = None
    hooks: Optional[Callable[[str], Sequence[Any]]] = None
    optimizer: Callable[[], Any] = _sgd
    whole: bool = False
    exported: bool = False

    @property
    def id(self) -> str:
        return f"{self.family}/{self.name}"

    @property
    def class_name(self) -> str:
        """The name of the model's class."""
        return "".join(part.capitalize() for part in re.findall(r"\w+", self.id.replace("_", " ")))
