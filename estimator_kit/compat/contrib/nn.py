"""tf.contrib.nn: variants of the operations of `tf.nn`."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.ops.nn_ops import conv1d_transpose as conv1d_transpose
from tensorflow.python.ops.nn_ops import nth_element as nth_element

__all__ = [
    "alpha_dropout",
    "conv1d_transpose",
    "deprecated_flipped_sigmoid_cross_entropy_with_logits",
    "deprecated_flipped_softmax_cross_entropy_with_logits",
    "deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
    "nth_element",
]

_SAMPLED = "Use tf.nn.sampled_softmax_loss instead."

REMEDIES = {
    "rank_sampled_softmax_loss": _SAMPLED,
    "sampled_sparse_softmax_loss": _SAMPLED,
    "scaled_softplus": "Write alpha * tf.nn.softplus(x / alpha) instead.",
}

# The value of SELU far below 0, which dropped elements get.
_DROPPED = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717


def alpha_dropout(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: Optional[int] = None,
    name: Optional[str] = None,
) -> Any:
    """Dropout that keeps mean 0 and variance 1 (https://arxiv.org/abs/1706.02515).

    Raises:
      ValueError: `keep_prob` is a number that is not in (0, 1].
    """
    with tf.name_scope(name, "alpha_dropout", [x]):
        x = tf.convert_to_tensor(x, name="x")
        if isinstance(keep_prob, (int, float)) and not 0 < keep_prob <= 1:
            raise ValueError(f"keep_prob: expected a number in (0, 1], got {keep_prob}")
        keep_prob = tf.convert_to_tensor(keep_prob, dtype=x.dtype, name="keep_prob")
        shape = tf.shape(x) if noise_shape is None else noise_shape
        kept = tf.floor(keep_prob + tf.random_uniform(shape, seed=seed, dtype=x.dtype))
        dropped = tf.constant(_DROPPED, x.dtype)
        variance = keep_prob * (1 + tf.square(dropped) * (1 - keep_prob))
        scale = 1 / tf.sqrt(variance)
        result = scale * (x * kept + dropped * (1 - kept) - dropped * (1 - keep_prob))
        result.set_shape(x.shape)
        return result


def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: Optional[str] = None
) -> Any:
    """`tf.nn.softmax_cross_entropy_with_logits` with the logits before the labels."""
    return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: Optional[str] = None
) -> Any:
    """`tf.nn.sparse_softmax_cross_entropy_with_logits` with the logits before the labels."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(
    logits: Any, targets: Any, name: Optional[str] = None
) -> Any:
    """`tf.nn.sigmoid_cross_entropy_with_logits` with the logits before the labels."""
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)
