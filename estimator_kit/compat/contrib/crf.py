"""tf.contrib.crf: linear-chain conditional random fields.

A sequence of tags has the score: the sum of its unary potentials (`inputs`) and of the
`transition_params` [from, to] between neighbors. Steps past `sequence_lengths` count for nothing.
In shapes, B is the batch, T the time and N the number of tags.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from ._crf_decoding import crf_decode as crf_decode

__all__ = """
    crf_binary_score crf_decode crf_log_likelihood crf_log_norm crf_multitag_sequence_score
    crf_sequence_score crf_unary_score viterbi_decode
""".split()

OLD_PATHS = ("python.ops.crf",)

REMEDIES = {
    "CrfDecodeBackwardRnnCell": "Use crf_decode.",
    "CrfDecodeForwardRnnCell": "Use crf_decode.",
    "CrfForwardRnnCell": "Use crf_log_norm.",
}


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """The log-likelihood [B] of each sequence of tags, and the transitions [N, N].

    Args:
      inputs: unary potentials [B, T, N].
      tag_indices: integers [B, T].
      sequence_lengths: integers [B].
      transition_params: [N, N]; the trainable variable `transitions` if None.
    """
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        tags = inputs.shape.as_list()[2]
        transition_params = tf.get_variable("transitions", [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    log_norm = crf_log_norm(inputs, sequence_lengths, transition_params)
    return score - log_norm, transition_params


def crf_sequence_score(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> Any:
    """The score [B] of each sequence of tags."""
    return crf_unary_score(tag_indices, sequence_lengths, inputs) + crf_binary_score(
        tag_indices, sequence_lengths, transition_params
    )


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """The sum [B] of the unary potentials of each sequence of tags."""
    inputs = tf.convert_to_tensor(inputs)
    of_tags = tf.gather(inputs, tf.expand_dims(tag_indices, -1), batch_dims=2)[..., 0]
    return tf.reduce_sum(of_tags * _mask(sequence_lengths, of_tags), 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The sum [B] of the transitions of each sequence of tags."""
    tag_indices = tf.convert_to_tensor(tag_indices)
    pairs = tf.stack([tag_indices[:, :-1], tag_indices[:, 1:]], -1)
    of_pairs = tf.gather_nd(tf.convert_to_tensor(transition_params), pairs)
    return tf.reduce_sum(of_pairs * _mask(tf.convert_to_tensor(sequence_lengths) - 1, of_pairs), 1)


def _mask(lengths: Any, like: Any) -> Any:
    return tf.sequence_mask(tf.maximum(lengths, 0), tf.shape(like)[1], like.dtype)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The logarithm [B] of the sum of exp(score) over all sequences of tags; 0 for length 0."""
    return _log_norm(tf.convert_to_tensor(inputs), sequence_lengths, transition_params)


def crf_multitag_sequence_score(
    inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any
) -> Any:
    """The logarithm [B] of the sum of exp(score) over the sequences of tags that `tag_bitmap` has.

    Args:
      tag_bitmap: [B, T, N], true for each tag that a step may have.
    """
    inputs = tf.convert_to_tensor(inputs)
    impossible = tf.fill(tf.shape(inputs), tf.constant(float("-inf"), inputs.dtype))
    allowed = tf.where_v2(tf.cast(tag_bitmap, tf.bool), inputs, impossible)
    return _log_norm(allowed, sequence_lengths, transition_params)


def _log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    lengths = tf.cast(sequence_lengths, tf.int32)
    transitions = tf.expand_dims(transition_params, 0)

    def step(alphas: Any, element: Any) -> Any:
        potentials, time = element
        after = potentials + tf.reduce_logsumexp(tf.expand_dims(alphas, 2) + transitions, 1)
        active = tf.logical_and(time > 0, time < lengths)
        return tf.where_v2(tf.expand_dims(active, 1), after, alphas)

    by_time = tf.transpose(inputs, [1, 0, 2])
    times = tf.range(tf.shape(by_time)[0])
    # The first step changes nothing. Without it, the loop could be empty, which foldl refuses.
    alphas = tf.foldl(step, (by_time, times), initializer=by_time[0])
    log_norm = tf.reduce_logsumexp(alphas, 1)
    return tf.where_v2(lengths > 0, log_norm, tf.zeros_like(log_norm))


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """The best sequence of tags and its score, by NumPy.

    Args:
      score: unary potentials [T, N] of one sequence.
      transition_params: [N, N].
    """
    best = np.array(score[0])
    sources: list[Any] = []
    for potentials in score[1:]:
        candidates = best[:, np.newaxis] + transition_params
        sources.append(np.argmax(candidates, 0))
        best = potentials + np.max(candidates, 0)
    tags = [int(np.argmax(best))]
    for source in reversed(sources):
        tags.append(int(source[tags[-1]]))
    return tags[::-1], np.max(best)
