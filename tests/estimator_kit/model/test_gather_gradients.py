"""Gradients of lookups, compared with TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.model import table_gradients
from estimator_kit.models import find_model
from input_pipelines.transform.transforms import Transform
from tests.conftest import DOCUMENT

v1 = tf.compat.v1


def gradient(ids, looked_up, *, short, shape=(7, 3), validate=True):
    """The dense gradient of a table, and how many operations it took."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        start = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        table = v1.get_variable(
            "table", initializer=start, use_resource=True, validate_shape=validate
        )
        with table_gradients.compact(training=short):
            result = looked_up(table, ids)
        before = len(graph.get_operations())
        (found,) = tf.gradients(result, [table])
        assert isinstance(found, tf.IndexedSlices)
        made = len(graph.get_operations()) - before
        session.run(v1.global_variables_initializer())
        return session.run((tf.convert_to_tensor(found), found.dense_shape)), made


def squares(table, ids):
    return tf.reduce_sum(tf.gather(table, ids) ** 2)


def one_by_one(table, ids):
    """The gradient of the lookup is sparse itself."""
    rows = tf.gather(table, ids)
    return tf.reduce_sum(tf.gather(rows, tf.range(tf.shape(rows)[0])) ** 2)


@pytest.mark.parametrize("looked_up", [squares, one_by_one])
@pytest.mark.parametrize(
    ("ids", "shape"),
    [([2, 0, 2, 6], (7, 3)), ([[1, 5], [5, 5]], (7, 3)), ([3, 3], (7,)), ([1, 0], (2, 3, 4)),
     (np.zeros((0,), np.int64), (7, 3))],
)  # fmt: skip
def test_gradients_are_those_of_tensorflow_with_fewer_operations(ids, shape, looked_up):
    (ours, our_shape), few = gradient(ids, looked_up, short=True, shape=shape)
    (theirs, their_shape), many = gradient(ids, looked_up, short=False, shape=shape)
    np.testing.assert_array_equal(ours, theirs)
    assert our_shape.tolist() == their_shape.tolist() == list(shape)
    assert few < many


def test_a_table_of_unknown_width():
    (ours, shape), _ = gradient([2, 0, 2], squares, short=True, validate=False)
    (theirs, _), _ = gradient([2, 0, 2], squares, short=False, validate=False)
    np.testing.assert_array_equal(ours, theirs)
    assert shape.tolist() == [7, 3]


@pytest.mark.parametrize("mode", ["train", "eval", "infer"])
def test_only_the_graph_of_a_training_has_them(mode):
    spec = ek.parse_spec(DOCUMENT)
    with tf.Graph().as_default() as graph:
        v1.train.get_or_create_global_step()
        features, labels = Transform(spec).features_and_labels(v1.placeholder(tf.string, [None]))
        find_model("dnn")(spec, {"hidden_units": [4]})(features, labels, mode)
    marked = [
        "_gradient_op_type" in op.node_def.attr
        for op in graph.get_operations()
        if op.type == "ResourceGather" and op.name.startswith("dnn/")
    ]
    assert marked and all(each == (mode == "train") for each in marked)
