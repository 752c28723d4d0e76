"""tf.contrib.layers: variable names as in TensorFlow 1.15, and values from NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_kit.compat.contrib import layers

pytestmark = pytest.mark.filterwarnings("ignore:.*layer.apply. is deprecated:UserWarning")

X = np.array([[1.0, 2.0, 4.0], [-1.0, 0.0, 3.0]], np.float32)


def names():
    return [variable.op.name for variable in tf.global_variables()]


def test_fully_connected_is_relu_with_weights_and_biases(run):
    out = layers.fully_connected(
        tf.constant(X),
        1,
        weights_initializer=tf.ones_initializer(),
        weights_regularizer=layers.l2_regularizer(0.5),
    )
    layers.fully_connected(out, 2)
    assert names() == [
        "fully_connected/weights",
        "fully_connected/biases",
        "fully_connected_1/weights",
        "fully_connected_1/biases",
    ]
    values, loss = run([out, tf.losses.get_regularization_loss()])
    np.testing.assert_allclose(values, [[7], [2]])
    np.testing.assert_allclose(loss, 0.5 * 3 / 2)


def test_layer_norm_has_variance_epsilon_1e_12(run):
    out = layers.layer_norm(tf.constant(X), begin_norm_axis=-1, begin_params_axis=-1)
    assert names() == ["LayerNorm/beta", "LayerNorm/gamma"]
    expected = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)
    np.testing.assert_allclose(run(out), expected, rtol=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_batch_norm_has_no_gamma_and_updates_later(run, fused):
    images = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)
    out = layers.batch_norm(tf.constant(images), is_training=True, decay=0.75, fused=fused)
    assert names() == ["BatchNorm/beta", "BatchNorm/moving_mean", "BatchNorm/moving_variance"]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    values, mean = run(updates, [out, tf.global_variables()[1]])
    flat = images.reshape(-1, 2)
    expected = (images - flat.mean(0)) / np.sqrt(flat.var(0) + 0.001)
    np.testing.assert_allclose(values, expected, rtol=1e-4)
    np.testing.assert_allclose(mean, 0.25 * flat.mean(0))


def test_embed_sequence_shares_its_table_by_scope(run):
    ids = tf.constant([[1, 0], [2, 1]])
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    once = layers.embed_sequence(ids, 3, 2, scope="e", initializer=tf.constant_initializer(table))
    again = layers.embed_sequence(ids, 3, 2, scope="e", reuse=True, unique=True)
    layers.embed_sequence(ids, 3, 2)
    assert names() == ["e/embeddings", "EmbedSequence/embeddings"]
    for value in run([once, again]):
        np.testing.assert_array_equal(value, table[[[1, 0], [2, 1]]])


def test_embed_sequence_needs_sizes_for_a_new_table(graph):
    message = "expected vocab_size and embed_dim, got vocab_size=3 and embed_dim=None."
    with pytest.raises(ValueError, match=message):
        layers.embed_sequence(tf.constant([[1]]), 3)


def test_bow_encoder_leaves_padding_out_only_if_sparse(run):
    ids = tf.constant([[1, 0], [2, 1], [0, 0]])
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    kwargs = {"initializer": tf.constant_initializer(table)}
    sparse = layers.bow_encoder(ids, 3, 2, **kwargs)
    dense = layers.bow_encoder(ids, 3, 2, sparse_lookup=False, **kwargs)
    values = run([sparse, dense])
    np.testing.assert_allclose(values[0], [[2, 3], [3, 4], [0, 1]])
    np.testing.assert_allclose(values[1], [[1, 2], [3, 4], [0, 1]])


def test_optimize_loss_clips_by_the_global_norm_and_counts_steps(run):
    w = tf.get_variable("w", initializer=[3.0, 4.0])
    step = tf.train.get_or_create_global_step()
    loss = tf.reduce_sum(w * w) / 2  # The gradient is w; its norm is 5.
    train = layers.optimize_loss(loss, step, learning_rate=0.1, optimizer="SGD", clip_gradients=1.0)
    assert names() == ["w", "global_step", "OptimizeLoss/learning_rate"]
    value, steps = run(train, [w, step])
    np.testing.assert_allclose(value, [3 - 0.1 * 3 / 5, 4 - 0.1 * 4 / 5], rtol=1e-6)
    assert steps == 1


def test_a_feature_column_says_what_to_write(tf_contrib):
    with pytest.raises(AttributeError) as error:
        _ = tf_contrib.layers.real_valued_column
    assert str(error.value) == (
        "module 'tensorflow.contrib.layers' has no attribute 'real_valued_column': "
        "Write tf.feature_column.numeric_column(key, shape=(dimension,)) instead."
    )
