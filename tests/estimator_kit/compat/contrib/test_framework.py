"""tf.contrib.framework: variables, checkpoints and functions that TensorFlow no longer has."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from estimator_kit.compat.contrib import framework


def test_variables_are_found_by_kind_name_and_scope(graph):
    with tf.variable_scope("s"):
        framework.model_variable("m", [2])
        framework.local_variable(tf.constant(1.0), name="l")
    framework.get_or_create_global_step()

    def names(variables):
        return [variable.op.name for variable in variables]

    assert names(framework.get_model_variables()) == ["s/m"]
    assert names(framework.get_variables_by_name("m")) == ["s/m"]
    assert names(framework.get_variables_to_restore(exclude=["s"])) == ["global_step"]
    assert names(tf.local_variables()) == ["s/l"]


def test_assigns_from_a_checkpoint(graph, tmp_path):
    w = tf.get_variable("w", initializer=[1.0, 2.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
        session.run(w.assign([0.0, 0.0]))
        framework.assign_from_checkpoint_fn(path, [w])(session)
        assert session.run(w).tolist() == [1, 2]
    assert framework.list_variables(path) == [("w", [2])]
    assert framework.load_variable(path, "w").tolist() == [1, 2]


def test_py_func_has_keywords_and_nested_results(run):
    def add(a, b):
        return {"sum": a + b, "both": [a, b]}

    types = {"sum": tf.float32, "both": [tf.float32, tf.float32]}
    shapes = {"sum": [], "both": [[], []]}
    result = framework.py_func(add, [tf.constant(1.0)], {"b": tf.constant(2.0)}, types, shapes)
    assert result["sum"].shape == []
    assert run(result) == {"sum": 3, "both": [1, 2]}


def test_with_shape_checks_now_or_when_it_runs(run):
    tensor = tf.constant([1.0, 2.0])
    assert framework.with_shape([2], tensor) is tensor
    with pytest.raises(ValueError, match=r"Const:0: expected the shape \[3\], got \(2,\)"):
        framework.with_shape([3], tensor)
    unknown = tf.placeholder_with_default([1.0, 2.0], None)
    assert framework.with_shape([2], unknown).shape == [2]
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(framework.with_shape(tf.constant([3]), unknown))


def test_squeezes_predictions_before_labels(run):
    predictions, labels = framework.remove_squeezable_dimensions(
        tf.constant([[1.0], [2.0]]), tf.constant([3.0, 4.0])
    )
    np.testing.assert_array_equal(run([predictions, labels]), [[1, 2], [3, 4]])


def test_refuses_inputs_of_two_graphs(graph):
    first = tf.constant(1.0)
    with tf.Graph().as_default():
        second = tf.constant(1.0)
    assert framework.get_graph_from_inputs([first]) is graph
    with pytest.raises(ValueError, match="op_input_list: expected one graph, but Const:0 is of an"):
        framework.get_graph_from_inputs([first, second])


def test_assert_scalar_int_refuses_floats(graph):
    with pytest.raises(ValueError, match="expected an integer type, got float32"):
        framework.assert_scalar_int(tf.constant(1.0))
