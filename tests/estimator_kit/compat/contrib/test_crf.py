"""Conditional random fields, compared with all sequences of tags of a small one."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import crf

v1 = tf.compat.v1

B, T, N = 4, 5, 3
LENGTHS = [5, 3, 1, 0]
RNG = np.random.RandomState(0)
INPUTS = RNG.randn(B, T, N).astype("float32")
TAGS = RNG.randint(0, N, [B, T]).astype("int32")
TRANSITIONS = RNG.randn(N, N).astype("float32")


def score(row, tags):
    return sum(INPUTS[row, t, tag] for t, tag in enumerate(tags)) + sum(
        TRANSITIONS[a, b] for a, b in zip(tags, tags[1:])
    )


def sequences(row):
    return list(itertools.product(range(N), repeat=LENGTHS[row]))


def run(tensors, shape):
    """With `shape` as the static shape of the inputs."""
    with tf.Graph().as_default(), v1.Session() as session:
        inputs = v1.placeholder(tf.float32, shape)
        tags = v1.placeholder(tf.int32, shape and shape[:2])
        made = tensors(inputs, tags, tf.constant(LENGTHS), tf.constant(TRANSITIONS))
        return session.run(made, {inputs: INPUTS, tags: TAGS})


SHAPES = ([B, T, N], [None, None, N])


@pytest.mark.parametrize("shape", SHAPES)
def test_the_likelihood_is_over_all_sequences(shape):
    def tensors(inputs, tags, lengths, transitions):
        return crf.crf_log_likelihood(inputs, tags, lengths, transitions)[0]

    expected = [
        score(row, TAGS[row, : LENGTHS[row]])
        - np.log(np.sum(np.exp([score(row, tags) for tags in sequences(row)])))
        for row in range(B)
    ]
    np.testing.assert_allclose(run(tensors, shape), expected, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_decodes_the_best_of_all_sequences(shape):
    def tensors(inputs, tags, lengths, transitions):
        return crf.crf_decode(inputs, transitions, lengths)

    tags, scores = run(tensors, shape)
    for row in range(3):
        best = max(sequences(row), key=lambda tags, row=row: score(row, tags))
        assert tags[row].tolist() == [*best, *[0] * (T - len(best))]
        np.testing.assert_allclose(scores[row], score(row, best), rtol=1e-5)
    found, best_score = crf.viterbi_decode(INPUTS[0], TRANSITIONS)
    assert found == tags[0].tolist()
    np.testing.assert_allclose(best_score, scores[0], rtol=1e-6)


def test_a_multitag_score_is_over_the_allowed_sequences():
    allowed = RNG.rand(B, T, N) > 0.4
    allowed[..., 1] = True

    def tensors(inputs, tags, lengths, transitions):
        return crf.crf_multitag_sequence_score(inputs, allowed, lengths, transitions)

    expected = [
        np.log(np.sum(np.exp([
            score(row, tags) for tags in sequences(row)
            if all(allowed[row, t, tag] for t, tag in enumerate(tags))
        ])))
        for row in range(3)
    ]  # fmt: skip
    np.testing.assert_allclose(run(tensors, SHAPES[0])[:3], expected, rtol=1e-5)


def test_the_gradient_is_the_difference_of_the_likelihood():
    def tensors(inputs, tags, lengths, transitions):
        likelihood, _ = crf.crf_log_likelihood(inputs, tags, lengths, transitions)
        return likelihood, tf.gradients(v1.reduce_sum(likelihood), transitions)[0]

    _, gradient = run(tensors, SHAPES[1])
    before, epsilon = TRANSITIONS.copy(), 1e-2
    try:
        totals = []
        for sign in (1, -1):
            TRANSITIONS[0, 1] = before[0, 1] + sign * epsilon
            totals.append(run(tensors, SHAPES[1])[0].sum())
    finally:
        TRANSITIONS[:] = before
    np.testing.assert_allclose(gradient[0, 1], (totals[0] - totals[1]) / 2 / epsilon, atol=2e-3)


def test_the_variable_is_named_transitions():
    with tf.Graph().as_default():
        crf.crf_log_likelihood(tf.constant(INPUTS), TAGS, LENGTHS)
        assert [(v.name, v.shape.as_list()) for v in v1.trainable_variables()] == [
            ("transitions:0", [N, N])
        ]


def test_one_step():
    with tf.Graph().as_default(), v1.Session() as session:
        inputs = tf.constant(INPUTS[:, :1])
        likelihood, _ = crf.crf_log_likelihood(inputs, TAGS[:, :1], [1] * B, TRANSITIONS)
        tags, _ = crf.crf_decode(inputs, TRANSITIONS, [1] * B)
        found = session.run([likelihood, tags])
    softmax = np.exp(INPUTS[:, 0]) / np.exp(INPUTS[:, 0]).sum(1, keepdims=True)
    np.testing.assert_allclose(found[0], np.log(softmax[range(B), TAGS[:, 0]]), rtol=1e-5)
    assert found[1][:, 0].tolist() == INPUTS[:, 0].argmax(1).tolist()
