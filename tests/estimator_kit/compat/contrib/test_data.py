"""Transformations of datasets."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import data

v1 = tf.compat.v1


def elements(make):
    """The elements of the dataset that `make` gives from 0 to 4, in a graph."""
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = make(v1.data.Dataset.range(5))
        following = v1.data.make_one_shot_iterator(dataset).get_next()
        found = []
        while True:
            try:
                found.append(session.run(following).tolist())
            except tf.errors.OutOfRangeError:
                return found


def ones(n):
    return tf.data.Dataset.from_tensors(n).repeat(2)


def filled(n):
    return tf.fill([n], n)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda d: d.apply(data.batch_and_drop_remainder(2)), [[0, 1], [2, 3]]),
        (
            lambda d: d.map(filled).apply(data.padded_batch_and_drop_remainder(2, [None])),
            [[[0], [1]], [[2, 2, 0], [3, 3, 3]]],
        ),
        (lambda d: d.apply(data.map_and_batch(lambda n: n * 2, 3)), [[0, 2, 4], [6, 8]]),
        (lambda d: d.take(2).apply(data.parallel_interleave(ones, cycle_length=2)), [0, 1, 0, 1]),
        (
            lambda d: d.apply(data.shuffle_and_repeat(1, count=2)),
            [0, 1, 2, 3, 4, 0, 1, 2, 3, 4],
        ),
        (lambda d: d.batch(2).apply(data.unbatch()), [0, 1, 2, 3, 4]),
        (lambda d: d.apply(data.scan(np.int64(0), lambda s, n: (s + n, s + n))), [0, 1, 3, 6, 10]),
        (
            lambda d: d.map(lambda n: tf.debugging.check_numerics(1 / (n - 2), "")).apply(
                data.ignore_errors()
            ),
            [-0.5, -1.0, 1.0, 0.5],
        ),
        (
            lambda d: d.apply(data.group_by_window(lambda n: n % 2, lambda _, w: w.batch(9), 2)),
            [[0, 2], [1, 3], [4]],
        ),
    ],
)
def test_gives(make, expected):
    assert elements(make) == expected


def test_sloppy_interleave_gives_all():
    found = elements(lambda d: d.take(2).apply(data.sloppy_interleave(ones, cycle_length=2)))
    assert sorted(found) == [0, 0, 1, 1]


def test_asserts_the_shape_of_elements():
    def make(d):
        return d.map(filled).apply(data.assert_element_shape(tf.TensorShape([0])))

    with pytest.raises(tf.errors.InvalidArgumentError, match="Shape"):
        elements(make)
    assert elements(lambda d: make(d.take(1))) == [[]]


def test_reduces_a_dataset():
    reducer = data.Reducer(lambda _: np.int64(0), lambda total, n: total + n, lambda total: total)
    with tf.Graph().as_default(), v1.Session() as session:
        assert session.run(data.reduce_dataset(v1.data.Dataset.range(5), reducer)) == 10


def test_reads_batches_of_features(tmp_path):
    path = str(tmp_path / "data")
    with tf.io.TFRecordWriter(path) as writer:
        for n in (1, 2):
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[n]))
            features = tf.train.Features(feature={"n": feature})
            writer.write(tf.train.Example(features=features).SerializeToString())
    with tf.Graph().as_default(), v1.Session() as session:
        batch = data.read_batch_features(
            path, 2, {"n": tf.io.FixedLenFeature([], tf.int64)}, randomize_input=False
        )
        assert session.run(batch)["n"].tolist() == [1, 2]
