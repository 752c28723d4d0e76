"""The built-in model `transformer`: self-attention over the steps of a sequence."""

from __future__ import annotations

import math
from collections.abc import Callable

import pydantic
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.models.dnn import PositiveInt
from estimator_kit.models.layers import dense_layer
from estimator_kit.models.normalization import layer_norm
from estimator_kit.models.sequence_model import SequenceModel, SequenceParams, pool_steps


def position_codes(lengths: tf.Tensor, steps: tf.Tensor, width: int) -> tf.Tensor:
    """Sines, then cosines, of the distance to the last step of the row: [rows, steps, width].

    Code i of position p is sin(p / 10000^(2i/width)). The second half has the cosines.
    """
    back = lengths[:, tf.newaxis] - 1 - tf.range(steps, dtype=tf.int64)
    rates = tf.exp(tf.range(width // 2, dtype=tf.float32) * (-2 * math.log(10000.0) / width))
    angles = tf.cast(back, tf.float32)[:, :, tf.newaxis] * rates
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=2)


def self_attention(
    steps: tf.Tensor, lengths: tf.Tensor, name: str, heads: int, *, causal: bool = False
) -> tf.Tensor:
    """Attention of all steps to the real steps: float32 [rows, steps, width].

    If `causal`, a step attends only to itself and to the steps before it.

    Raises:
      ConfigError: the heads do not divide the width of a step.
    """
    width = int(steps.shape[2])
    if width % heads:
        raise ConfigError(
            f"heads: got {heads}, expected a number that divides the width of a step, {width}. "
            "Choose other heads, or set the parameter width."
        )
    size = tf.shape(steps)
    with tf.compat.v1.variable_scope(name):
        query, key, value = (
            tf.reshape(
                # A bias of the keys would add the same to all scores of a query.
                dense_layer(steps, width, part, use_bias=part != "key"),
                [size[0], size[1], heads, width // heads],
            )
            for part in ("query", "key", "value")
        )
        scores = tf.einsum("nqhd,nkhd->nhqk", query, key) / math.sqrt(width // heads)
        is_step = tf.sequence_mask(lengths, size[1])[:, tf.newaxis, tf.newaxis, :]
        if causal:
            places = tf.range(size[1])
            is_step &= places[:, tf.newaxis] >= places
        # Low enough for a weight of exactly 0.
        weights = tf.nn.softmax(tf.where(is_step, scores, -1e9 * tf.ones_like(scores)))
        mixed = tf.einsum("nhqk,nkhd->nqhd", weights, value)
        mixed = tf.reshape(mixed, [size[0], size[1], width])
        return dense_layer(mixed, width, "output")


def transformer_block(
    x: tf.Tensor,
    lengths: tf.Tensor,
    name: str,
    *,
    heads: int,
    feed_forward: int,
    drop: Callable[[tf.Tensor], tf.Tensor],
    causal: bool = False,
) -> tf.Tensor:
    """Attention, then two dense layers, each added to its input: float32 [rows, steps, width]."""
    with tf.compat.v1.variable_scope(name):
        normed = layer_norm(x, "norm_0")
        x += drop(self_attention(normed, lengths, "attention", heads, causal=causal))
        inner = dense_layer(layer_norm(x, "norm_1"), feed_forward, "inner", tf.nn.relu)
        return x + drop(dense_layer(inner, int(x.shape[2]), "outer"))


class TransformerModel(SequenceModel):
    """Transformer blocks over the steps of a group, pooling of the steps, and a DNN.

    Vaswani et al., Attention Is All You Need, NIPS 2017, with the normalization before each part,
    so that training needs no warm-up (Xiong et al., ICML 2020). The model projects the steps to one
    width and adds sines and cosines of their positions. Each block then computes

        x = x + A(norm(x)),  A projects softmax(Q K^T / sqrt(width / heads)) V of several heads
        x = x + W2 relu(W1 norm(x) + b1) + b2

    Positions count backwards from the last step of a row, so that the most recent step is always 0.
    Time and memory grow with the square of the number of steps.
    """

    class Params(SequenceParams):
        """Attributes:
        blocks: the number of blocks.
        heads: the number of attention heads of each block.
        width: the width of a step inside the blocks. It must be even and a multiple of `heads`.
        feed_forward: the number of units of the layer W1.
        """

        blocks: PositiveInt = 1
        heads: PositiveInt = 2
        width: PositiveInt = 64
        feed_forward: PositiveInt = 128

        @pydantic.model_validator(mode="after")
        def _heads_divide_the_width(self) -> TransformerModel.Params:
            if self.width % self.heads or self.width % 2:
                raise ValueError(
                    f"width must be even and a multiple of heads, {self.heads}, got {self.width}"
                )
            return self

    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        p = self.params
        x = dense_layer(steps, p.width, "input")
        x = self.drop(x + position_codes(lengths, tf.shape(x)[1], p.width), mode)
        for i in range(p.blocks):
            x = transformer_block(
                x,
                lengths,
                f"block_{i}",
                heads=p.heads,
                feed_forward=p.feed_forward,
                drop=lambda steps: self.drop(steps, mode),
            )
        return pool_steps(layer_norm(x, "norm"), lengths, p.pooling)
