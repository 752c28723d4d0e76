"""Splits the logits that a model returns into one tensor per objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import tensorflow as tf

from estimator_kit.errors import ConfigError

Logits = Union[tf.Tensor, Mapping[str, tf.Tensor]]


def split_logits(model: str, logits: Logits, widths: Mapping[str, int]) -> dict[str, tf.Tensor]:
    """{objective: float32 [rows, its width]}, in the order of `widths`.

    Args:
      model: the name of the model, for messages.
      logits: float32 [rows, sum of widths], or one tensor per objective.
      widths: the number of logits of each objective.

    Raises:
      ConfigError: the logits have a wrong shape, dtype or objective.
    """
    named = logits if isinstance(logits, Mapping) else {", ".join(widths): logits}
    for name, value in named.items():
        if not isinstance(value, tf.Tensor) or value.dtype != tf.float32:
            raise ConfigError(
                f"{model}.logits returned {value!r} for {name}, expected a float32 tensor"
            )
    if isinstance(logits, Mapping):
        missing = [name for name in widths if name not in logits]
        if missing:
            raise ConfigError(
                f"{model}.logits returned no logits for {', '.join(missing)}, got logits for "
                f"{', '.join(logits) or 'nothing'}. Return logits for all objectives of the spec: "
                f"{', '.join(widths)}."
            )
        extra = [name for name in logits if name not in widths]
        if extra:
            raise ConfigError(
                f"{model}.logits returned logits for {', '.join(extra)}, but the spec has no such "
                f"objective. Use one of: {', '.join(widths)}."
            )
        parts = {name: logits[name] for name in widths}
    else:
        if logits.shape.rank != 2 or logits.shape[1] != sum(widths.values()):
            raise ConfigError(
                f"{model}.logits returned the shape {logits.shape}, expected "
                f"[rows, {sum(widths.values())}] for {', '.join(widths)}"
            )
        parts = dict(zip(widths, tf.split(logits, list(widths.values()), axis=1)))
    for name, part in parts.items():
        if part.shape.rank != 2 or part.shape[1] != widths[name]:
            raise ConfigError(
                f"{model}.logits returned the shape {part.shape} for {name!r}, expected "
                f"[rows, {widths[name]}]"
            )
    return parts


def check_rows(
    model: str, logits: Mapping[str, tf.Tensor], rows: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The logits, with a check in the graph that they have as many rows as the batch."""
    checked = {}
    for name, value in logits.items():
        text = f"{model}.logits: the logits for {name!r} do not have as many rows as the batch"
        check = tf.debugging.assert_equal(tf.shape(value)[0], rows, message=text)
        with tf.control_dependencies([check]):
            checked[name] = tf.identity(value)
    return checked
