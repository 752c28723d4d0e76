"""Lookups of several columns together, with results that are computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.model import gathers
from estimator_kit.model.gathers import Lookup, OneHot

TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [30.0, 40.0]], np.float32)
OTHER = np.array([[5.0, 6.0], [7.0, 8.0]], np.float32)
WIDE = np.array([[1.0, 1.0, 1.0]], np.float32)


def variable(name, values):
    return tf.compat.v1.get_variable(name, initializer=values, use_resource=True)


def run(make):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = make()
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run(tensors)


def test_columns_of_one_width_are_looked_up_together():
    def make():
        first, second, wide = variable("a", TABLE), variable("b", OTHER), variable("c", WIDE)
        return gathers.gather_all(
            [
                Lookup(first, tf.constant([2, -1, 0], tf.int64), max_norm=5.0),
                Lookup(wide, tf.constant([0, -1, -1], tf.int64)),
                Lookup(second, tf.constant([-1, 1, 0], tf.int64)),
                Lookup(first, tf.constant([1, 1, -1], tf.int64)),
            ]
        )

    limited, wide, second, first = run(make)
    np.testing.assert_allclose(
        limited, [[3, 4], [0, 0], [1, 2]], rtol=1e-6
    )  # (30, 40) has the length 50.
    assert wide.tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert second.tolist() == [[0, 0], [7, 8], [5, 6]]
    assert first.tolist() == [[3, 4], [3, 4], [0, 0]]


def test_a_missing_id_has_no_gradient_and_hides_a_row_that_is_not_finite():
    bad = TABLE.copy()
    bad[0] = np.nan

    def make():
        first, second = variable("a", bad), variable("b", OTHER)
        one, two = gathers.gather_all(
            [
                Lookup(first, tf.constant([1, -1], tf.int64)),
                Lookup(second, tf.constant([1, 1], tf.int64)),
            ]
        )
        loss = tf.reduce_sum(one * [[1.0, 2.0], [3.0, 4.0]]) + tf.reduce_sum(two)
        return one, [tf.convert_to_tensor(g) for g in tf.gradients(loss, [first, second])]

    one, (first, second) = run(make)
    assert one.tolist() == [[3, 4], [0, 0]]
    assert first.tolist() == [[0, 0], [1, 2], [0, 0]]
    assert second.tolist() == [[0, 0], [2, 2]]


def test_many_columns_are_looked_up_in_parts(monkeypatch):
    monkeypatch.setattr(gathers, "_MOST_TOGETHER", 2)

    def make():
        table = variable("a", TABLE)
        ids = ([0], [1], [-1], [2], [1])
        return gathers.gather_all([Lookup(table, tf.constant(i, tf.int64)) for i in ids])

    assert [found[0].tolist() for found in run(make)] == [[1, 2], [3, 4], [0, 0], [30, 40], [3, 4]]


def test_one_hot_columns_are_made_together():
    def make():
        ids = [tf.constant(i, tf.int64) for i in ([1, -1], [0, 0], [0, 1])]
        columns = {"a": OneHot(ids[0], 2), "b": OneHot(ids[1], 1), "c": OneHot(ids[2], 2)}
        return gathers.completed({**columns, "ready": tf.constant([[7.0], [8.0]])})

    assert {name: value.tolist() for name, value in run(make).items()} == {
        "a": [[0, 1], [0, 0]], "b": [[1], [1]], "c": [[1, 0], [0, 1]], "ready": [[7], [8]],
    }  # fmt: skip


def test_a_batch_without_rows():
    def make():
        tables = variable("a", TABLE), variable("b", OTHER)
        none = tf.zeros([0], tf.int64)
        return gathers.gather_all([Lookup(table, none) for table in tables])

    assert [found.shape for found in run(make)] == [(0, 2), (0, 2)]


@pytest.mark.parametrize(
    "lengths",
    [[], [0], [3], [0, 2, 0, 0, 1, 0], [4, 0, 0], [0, 0, 5], [1] * 7, [2, 0, 3, 1, 0, 6]],
    ids=str,
)
def test_row_ids_are_the_value_rowids(lengths):
    count = sum(lengths)

    def make():
        values = tf.range(count, dtype=tf.int64)
        ragged = tf.RaggedTensor.from_row_lengths(values, tf.constant(lengths, tf.int64))
        return gathers.row_ids(ragged), ragged.value_rowids()

    found, expected = run(make)
    assert found.tolist() == expected.tolist() and len(found) == count
