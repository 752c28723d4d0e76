"""Predictors of SavedModels and Estimators."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import predictor

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A SavedModel with raw placeholders: y = 3 x, and z = x + 3 as another signature."""
    folder = str(tmp_path_factory.mktemp("model") / "1")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], name="x")
        w = v1.get_variable("w", initializer=3.0)
        outputs = {"y": tf.multiply(x, w, name="y"), "z": tf.add(x, w, name="z")}
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                key: v1.saved_model.predict_signature_def({"x": x}, {name: outputs[name]})
                for key, name in (("serving_default", "y"), ("plus", "z"))
            },
        )
        builder.save()
    return folder


def test_calls_the_default_signature(model):
    predict = predictor.from_saved_model(model)
    np.testing.assert_allclose(predict({"x": [1.0, 2.0]})["y"], [3.0, 6.0])
    assert predict.feed_tensors["x"].name == "x:0"
    assert predict.fetch_tensors["y"].name == "y:0"
    assert predict.session.graph is predict.graph


def test_calls_another_signature(model):
    predict = predictor.from_saved_model(model, signature_def_key="plus")
    np.testing.assert_allclose(predict({"x": [1.0]})["z"], [4.0])


def test_calls_tensors_by_name(model):
    predict = predictor.from_saved_model(
        model, input_names={"in": "x:0"}, output_names={"out": "z:0"}, tags="serve"
    )
    np.testing.assert_allclose(predict({"in": [1.0]})["out"], [4.0])


def test_an_unknown_input_is_an_error(model):
    with pytest.raises(ValueError) as raised:
        predictor.from_saved_model(model)({"q": [1.0]})
    assert str(raised.value) == "Got unexpected keys in input_dict: ['q']\nexpected: ['x']"


def test_an_unknown_signature_is_an_error(model):
    with pytest.raises(ValueError) as raised:
        predictor.from_saved_model(model, signature_def_key="minus")
    assert str(raised.value) == (
        f"Got signature_def_key 'minus' for {model}. Available signatures are "
        "['plus', 'serving_default']."
    )


def test_two_ways_to_name_the_signature_are_an_error(model):
    with pytest.raises(ValueError, match="You must specify at most one of"):
        predictor.from_saved_model(
            model, signature_def_key="plus", input_names={"in": "x:0"}, output_names={"out": "z:0"}
        )


def test_calls_an_estimator(tmp_path):
    def model_fn(features, labels, mode):
        w = v1.get_variable("w", initializer=3.0)
        predictions = {"y": features["x"] * w}
        loss = v1.reduce_sum(w)
        return tf.estimator.EstimatorSpec(
            mode,
            predictions,
            loss,
            v1.assign_add(v1.train.get_or_create_global_step(), 1),
            export_outputs={
                "double": tf.estimator.export.PredictOutput({"y2": predictions["y"] * 2})
            },
        )

    def receiver_fn():
        x = {"x": v1.placeholder(tf.float32, [None])}
        return tf.estimator.export.ServingInputReceiver(x, x)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0])), steps=1)
    predict = predictor.from_estimator(estimator, receiver_fn, output_key="double")
    np.testing.assert_allclose(predict({"x": [1.0, 2.0]})["y2"], [6.0, 12.0])
