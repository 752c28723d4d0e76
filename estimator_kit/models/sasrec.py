"""The built-in model `sasrec`: causal self-attention over the steps, for the next item.

Kang & McAuley, Self-Attentive Sequential Recommendation, ICDM 2018. e are the embeddings of the
steps, P the learned vectors of positions, and A is attention of a step to itself and to the steps
before it:

    x = sqrt(width) e + P
    x = x + A(norm(x)),   x = x + W2 relu(W1 norm(x) + b1) + b2      for each block
    hidden = norm(x),     score of item j after step t = <hidden_t, e_j>

Differences from the paper: the keys and values of A are normalized too, not only the queries, and A
ends with a dense layer. The paper compares the next item with one sampled item; the default loss of
the head is the softmax over all items, which ranks better (Klenitskiy & Vasilev, RecSys 2023).

Positions count backwards from the last step, so that the most recent step is always 0. Steps before
the last `max_steps` share one position. Time and memory grow with the square of the steps.
"""

from __future__ import annotations

import math
from typing import Optional

import tensorflow as tf

from estimator_kit.models.dnn_params import Dropout, PositiveInt
from estimator_kit.models.layers import dense_layer
from estimator_kit.models.next_item_model import NextItemModel, NextItemParams
from estimator_kit.models.normalization import layer_norm
from estimator_kit.models.transformer import transformer_block


class SASRecModel(NextItemModel):
    """Causal transformer blocks over the steps of a group."""

    class Params(NextItemParams):
        """Attributes:
        blocks: the number of blocks.
        heads: the number of attention heads of each block. It divides `width`.
        width: the width of a step inside the blocks. None is the width of the steps.
        feed_forward: the number of units of the layer W1. None is the width.
        max_steps: the number of positions.
        steps_dropout: the share of the inputs of each layer over steps that training sets to zero.
          The paper uses 0.2 for MovieLens-1M and 0.5 for sparser data.
        """

        blocks: PositiveInt = 2
        heads: PositiveInt = 1
        width: Optional[PositiveInt] = None
        feed_forward: Optional[PositiveInt] = None
        max_steps: PositiveInt = 50
        steps_dropout: Dropout = 0.2

    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        p = self.params
        width = p.width or int(steps.shape[2])
        if width != steps.shape[2]:
            steps = dense_layer(steps, width, "input")
        positions = tf.compat.v1.get_variable(
            "positions",
            [p.max_steps, width],
            initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.02),
        )
        back = lengths[:, tf.newaxis] - 1 - tf.range(tf.shape(steps, tf.int64)[1])
        back = tf.clip_by_value(back, 0, p.max_steps - 1)
        x = self.drop(steps * math.sqrt(width) + tf.gather(positions, back), mode)
        for i in range(p.blocks):
            x = transformer_block(
                x,
                lengths,
                f"block_{i}",
                heads=p.heads,
                feed_forward=p.feed_forward or width,
                drop=lambda inner: self.drop(inner, mode),
                causal=True,
            )
        return layer_norm(x, "norm")
