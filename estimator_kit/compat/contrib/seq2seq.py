"""tf.contrib.seq2seq: the loss of sequences, and batches for a beam search.

Decoders, helpers and attention wrappers are not here.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

__all__ = ["hardmax", "sequence_loss", "tile_batch"]

OLD_PATHS = ("python.ops.beam_search_decoder", "python.ops.loss")

_DECODING = (
    "Write the loop with tf.nn.raw_rnn or tf.while_loop. The package tensorflow-addons has a class "
    "of this name, with other arguments, for TensorFlow 2.15 and earlier."
)
_ATTENTION = "Use tf.keras.layers.AdditiveAttention or tf.keras.layers.Attention in an own RNNCell."

REMEDIES = {
    **dict.fromkeys(
        """
        BasicDecoder BasicDecoderOutput BeamSearchDecoder BeamSearchDecoderOutput
        BeamSearchDecoderState CustomHelper Decoder FinalBeamSearchDecoderOutput
        GreedyEmbeddingHelper Helper InferenceHelper SampleEmbeddingHelper
        ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper TrainingHelper decoder
        dynamic_decode dynamic_rnn_decoder gather_tree helper simple_decoder_fn_train
        """.split(),
        _DECODING,
    ),
    **dict.fromkeys(
        """
        AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention
        BahdanauMonotonicAttention LuongAttention LuongMonotonicAttention monotonic_attention
        """.split(),
        _ATTENTION,
    ),
    "safe_cumprod": "Use tf.exp(tf.cumsum(tf.log(tf.maximum(x, 1e-30)))).",
}


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Optional[Callable[..., Any]] = None,
    name: Optional[str] = None,
) -> Any:
    """The weighted cross-entropy of sequences.

    Args:
      logits: [batch, time, classes].
      targets: integers [batch, time].
      weights: [batch, time].
      average_across_timesteps, average_across_batch: divide by the weights of that dimension, which
        is then not in the result.
      sum_over_timesteps, sum_over_batch: sum over that dimension, and divide by the number of
        weights in it that are not 0.
      softmax_loss_function: of `labels` and `logits`; the sparse softmax cross-entropy if None.
    """
    if average_across_timesteps and sum_over_timesteps:
        raise ValueError("average_across_timesteps and sum_over_timesteps cannot both be True.")
    if average_across_batch and sum_over_batch:
        raise ValueError("average_across_batch and sum_over_batch cannot both be True.")
    with tf.name_scope(name, "sequence_loss"):
        loss_of = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        logits = tf.convert_to_tensor(logits)
        shape = tf.shape(logits)
        flat = loss_of(labels=tf.reshape(targets, [-1]), logits=tf.reshape(logits, [-1, shape[2]]))
        weights = tf.convert_to_tensor(weights)
        losses = tf.reshape(flat, shape[:2]) * weights
        losses.set_shape(logits.shape[:2])
        averaged = [
            i for i, on in enumerate((average_across_batch, average_across_timesteps)) if on
        ]
        summed = [i for i, on in enumerate((sum_over_batch, sum_over_timesteps)) if on]
        if not averaged and not summed:
            return losses
        # As in TensorFlow 1.15, an average over one dimension leaves the other as it is.
        axes = averaged or summed
        counts = weights if averaged else tf.cast(tf.not_equal(weights, 0), losses.dtype)
        return tf.math.divide_no_nan(tf.reduce_sum(losses, axes), tf.reduce_sum(counts, axes))


def tile_batch(t: Any, multiplier: int, name: Optional[str] = None) -> Any:
    """Each entry of the batch `multiplier` times in a row: [a, b] becomes [a, a, b, b].

    Args:
      t: a tensor with the batch first, or a structure of such tensors.
    """
    with tf.name_scope(name, "tile_batch"):
        return tf.nest.map_structure(lambda x: tf.repeat(x, multiplier, axis=0), t)


def hardmax(logits: Any, name: Optional[str] = None) -> Any:
    """1 at the largest of the last dimension, else 0."""
    with tf.name_scope(name, "Hardmax"):
        logits = tf.convert_to_tensor(logits)
        return tf.one_hot(tf.argmax(logits, -1), tf.shape(logits)[-1], dtype=logits.dtype)
