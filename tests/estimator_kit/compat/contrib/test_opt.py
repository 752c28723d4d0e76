"""tf.contrib.opt: update rules in NumPy, for variables of both kinds of TensorFlow 1."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_kit.compat.contrib import opt

RATE, BETA1, BETA2, EPSILON = 0.1, 0.9, 0.999, 1e-8
KINDS = pytest.mark.parametrize("use_resource", [False, True])


def variable(value, use_resource, name="w"):
    return tf.get_variable(
        name, initializer=np.asarray(value, np.float32), use_resource=use_resource
    )


@KINDS
def test_lazy_adam_moves_only_the_rows_of_the_gradient(run, use_resource):
    w = variable([[1.0], [1.0], [1.0]], use_resource)
    ids = tf.placeholder_with_default([0, 2, 2], [None])
    optimizer = opt.LazyAdamOptimizer(RATE)
    train = optimizer.minimize(tf.reduce_sum(tf.nn.embedding_lookup(w, ids)))

    value, m = [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]
    v = [0.0, 0.0, 0.0]
    for step in (1, 2):
        rate = RATE * np.sqrt(1 - BETA2**step) / (1 - BETA1**step)
        for row, gradient in ((0, 1.0), (2, 2.0)):
            m[row] = BETA1 * m[row] + (1 - BETA1) * gradient
            v[row] = BETA2 * v[row] + (1 - BETA2) * gradient**2
            value[row] -= rate * m[row] / (np.sqrt(v[row]) + EPSILON)
    got = run(train, train, [w, optimizer.get_slot(w, "m"), optimizer.get_slot(w, "v")])
    # 1 - 0.999 has 5 digits in float32.
    np.testing.assert_allclose(np.ravel(got), [*value, *m, *v], rtol=1e-4)


@KINDS
@pytest.mark.parametrize("sparse", [False, True])
def test_nadam_looks_ahead(run, use_resource, sparse):
    w = variable([[1.0]], use_resource)
    value = tf.nn.embedding_lookup(w, [0]) if sparse else w
    train = opt.NadamOptimizer(RATE).minimize(tf.reduce_sum(2 * value))

    expected, m, v, gradient = 1.0, 0.0, 0.0, 2.0
    for step in (1, 2):
        m = BETA1 * m + (1 - BETA1) * gradient
        v = BETA2 * v + (1 - BETA2) * gradient**2
        rate = RATE * np.sqrt(1 - BETA2**step) / (1 - BETA1**step)
        expected -= rate * (BETA1 * m + (1 - BETA1) * gradient) / (np.sqrt(v) + EPSILON)
    np.testing.assert_allclose(run(train, train, w), [[expected]], rtol=1e-5)


@KINDS
def test_weight_decay_comes_before_the_step(run, use_resource):
    w, b = variable([2.0, 4.0], use_resource), variable([2.0], use_resource, "b")
    optimizer = opt.MomentumWOptimizer(weight_decay=0.1, learning_rate=0.5, momentum=0.9)
    gradients = [(tf.constant([1.0, 1.0]), w), (tf.constant([1.0]), b)]
    train = optimizer.apply_gradients(gradients, decay_var_list=[w])
    for got, expected in zip(run(train, [w, b]), ([1.8 - 0.5, 3.6 - 0.5], [2 - 0.5])):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@KINDS
def test_a_sparse_gradient_decays_its_own_rows(run, use_resource):
    w = variable([[1.0], [1.0]], use_resource)
    optimizer = opt.extend_with_decoupled_weight_decay(tf.train.MomentumOptimizer)
    train = optimizer(0.1, learning_rate=0.5, momentum=0.9).minimize(
        tf.reduce_sum(tf.nn.embedding_lookup(w, [1]))
    )
    np.testing.assert_allclose(run(train, w), [[1.0], [1.0 - 0.1 - 0.5]], rtol=1e-6)


def test_minimize_decays_all_variables_as_in_1_15(run):
    """Recorded from TensorFlow 1.15, which ignores decay_var_list here."""
    a, b = variable([1.0, 2.0], False, "a"), variable([1.0, 2.0], False, "b")
    loss = tf.reduce_sum(a * a) + tf.reduce_sum(b * b)
    train = opt.AdamWOptimizer(0.1, learning_rate=0.01).minimize(loss, decay_var_list=[a])
    for got in run(train, [a, b]):
        np.testing.assert_allclose(got, [0.89, 1.79], rtol=1e-5)


def test_swapping_saver_saves_the_averages_as_the_variables(graph, tmp_path):
    w = variable([1.0], True)
    optimizer = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.0), 0.5)
    train = optimizer.minimize(tf.reduce_sum(w))
    saver = optimizer.swapping_saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        path = saver.save(session, str(tmp_path / "model"))
    reader = tf.train.load_checkpoint(path)
    # The variable is 0 now; its average is 0.5 * 1 + 0.5 * 0.
    assert reader.get_tensor("w") == [0.5]
    assert reader.get_tensor("w/ExponentialMovingAverage") == [0.0]


def test_swapping_saver_needs_a_training_operation(graph):
    optimizer = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(1.0))
    with pytest.raises(RuntimeError, match="expected a call of minimize or apply_gradients before"):
        optimizer.swapping_saver()
