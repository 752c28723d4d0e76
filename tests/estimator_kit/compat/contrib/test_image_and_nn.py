"""tf.contrib.image and tf.contrib.nn on small arrays."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_kit.compat.contrib import image, nn

PICTURE = np.arange(1, 10, dtype=np.float32).reshape(3, 3)


def test_rotates_counterclockwise(run):
    np.testing.assert_array_equal(
        run(image.rotate(tf.constant(PICTURE), np.pi / 2)), np.rot90(PICTURE)
    )


def test_translates_right_and_down_and_fills_with_zeros(run):
    moved = run(image.translate(tf.constant(PICTURE), [1, 2]))
    np.testing.assert_array_equal(moved, [[0, 0, 0], [0, 0, 0], [0, 1, 2]])


def test_each_image_has_its_own_transform(run):
    batch = tf.constant(np.stack([PICTURE, PICTURE])[..., None])
    turned = run(image.rotate(batch, [0.0, np.pi]))
    np.testing.assert_array_equal(turned[0, ..., 0], PICTURE)
    np.testing.assert_array_equal(turned[1, ..., 0], PICTURE[::-1, ::-1])


def test_composes_transforms(run):
    moves = image.compose_transforms([1, 0, -1, 0, 1, 0, 0, 0], [1, 0, 0, 0, 1, -2, 0, 0])
    np.testing.assert_array_equal(run(moves), [[1, 0, -1, 0, 1, -2, 0, 0]])


def test_needs_a_known_rank(graph):
    with pytest.raises(TypeError, match="images: expected a known rank of 2 to 4, got 1"):
        image.rotate(tf.constant([1.0]), 0.1)


def test_alpha_dropout_keeps_mean_and_variance(run):
    tf.set_random_seed(1)
    normal = np.random.default_rng(1).normal(size=[200, 200]).astype(np.float32)
    dropped = run(nn.alpha_dropout(tf.constant(normal), 0.8, seed=1))
    assert abs(dropped.mean()) < 0.02
    assert abs(dropped.std() - 1) < 0.02


def test_flipped_cross_entropy_takes_the_logits_first(run):
    loss = nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
        tf.constant([[0.0, np.log(3)]]), tf.constant([1])
    )
    np.testing.assert_allclose(run(loss), [-np.log(0.75)], rtol=1e-5)
