"""The best sequence of tags of a conditional random field, as a part of the graph."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """The best tags int32 [B, T] of each sequence, 0 past its length, and their score [B].

    Args:
      potentials: unary potentials [B, T, N].
      transition_params: [N, N], from one tag to the next.
      sequence_length: integers [B]. 0 is treated as 1, as in TensorFlow 1.15.
    """
    potentials = tf.convert_to_tensor(potentials)
    lengths = tf.cast(sequence_length, tf.int32)
    by_time = tf.transpose(potentials, [1, 0, 2])
    steps = tf.shape(by_time)[0]
    scores, sources = _forward(by_time, transition_params, lengths)
    last = tf.argmax(scores, 1, output_type=tf.int32)
    tags = _backward(sources, last)
    tags = tf.where_v2(tf.sequence_mask(tf.maximum(lengths, 1), steps), tags, tf.zeros_like(tags))
    tags.set_shape(potentials.shape[:2])
    return tags, tf.reduce_max(scores, 1)


def _forward(by_time: Any, transition_params: Any, lengths: Any) -> tuple[Any, Any]:
    """The best scores [B, N] at the end, and the best tag before each tag [T, B, N].

    Steps past the length change nothing: the tag before each tag is the tag itself.
    """
    transitions = tf.expand_dims(transition_params, 0)
    itself = tf.zeros_like(by_time[0], tf.int32) + tf.range(tf.shape(by_time)[2])

    def step(before: Any, element: Any) -> Any:
        scores, _ = before
        potentials, time = element
        candidates = tf.expand_dims(scores, 2) + transitions
        active = tf.expand_dims(tf.logical_and(time > 0, time < lengths), 1)
        after = tf.where_v2(active, tf.reduce_max(candidates, 1) + potentials, scores)
        sources = tf.where_v2(active, tf.argmax(candidates, 1, output_type=tf.int32), itself)
        return after, sources

    times = tf.range(tf.shape(by_time)[0])
    scores, sources = tf.scan(step, (by_time, times), initializer=(by_time[0], itself))
    return scores[-1], sources


def _backward(sources: Any, last: Any) -> Any:
    """The tags [B, T] that lead to the tags `last` [B]."""

    def step(tag: Any, before: Any) -> Any:
        return tf.gather(before, tag, batch_dims=1)

    # The element of step t is the tag of step t - 1.
    earlier = tf.scan(step, sources, initializer=last, reverse=True)
    return tf.transpose(tf.concat([earlier[1:], tf.expand_dims(last, 0)], 0))
