"""The loss of sequences; expected values by NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import seq2seq

v1 = tf.compat.v1

LOGITS = np.log([[[0.5, 0.5], [0.25, 0.75]], [[0.1, 0.9], [0.2, 0.8]]]).astype("float32")
TARGETS = [[0, 1], [0, 1]]
WEIGHTS = np.array([[1.0, 2.0], [1.0, 0.0]], "float32")
LOSSES = WEIGHTS * -np.log([[0.5, 0.75], [0.1, 0.8]])


def run(make):
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(make())


@pytest.mark.parametrize(
    ("averages", "sums", "expected"),
    [
        ((True, True), (False, False), LOSSES.sum() / 4),
        ((True, False), (False, False), LOSSES.sum(1) / [3, 1]),
        ((False, True), (False, False), LOSSES.sum(0) / [2, 2]),
        ((False, False), (False, False), LOSSES),
        ((False, False), (True, True), LOSSES.sum() / 3),
        ((False, False), (True, False), LOSSES.sum(1) / [2, 1]),
        ((False, False), (False, True), LOSSES.sum(0) / [2, 1]),
    ],
)
def test_sequence_loss(averages, sums, expected):
    found = run(lambda: seq2seq.sequence_loss(LOGITS, TARGETS, WEIGHTS, *averages, *sums))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_dimension_is_averaged_or_summed():
    with pytest.raises(ValueError, match="average_across_batch and sum_over_batch cannot both"):
        seq2seq.sequence_loss(LOGITS, TARGETS, WEIGHTS, sum_over_timesteps=False,
                              sum_over_batch=True)  # fmt: skip


def test_tiles_a_batch():
    found = run(lambda: seq2seq.tile_batch({"x": tf.constant([[1], [2]])}, 2))
    assert found["x"].tolist() == [[1], [1], [2], [2]]


def test_hardmax():
    assert run(lambda: seq2seq.hardmax([[1.0, 3.0, 2.0]])).tolist() == [[0, 1, 0]]
