"""`add_output`: taken names, and values that are not one per row, are refused by name."""

from __future__ import annotations

import re
import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints.model_outline import build, outline
from tests.estimator_kit.model.test_model_fn import Constant

ModeKeys = tf.estimator.ModeKeys
TENSOR = r"expected a tensor \[rows, \.\.\.\] for 'mine',"
PLACE = re.escape(__file__) + r":\d+: Adds\.add_output: "


@pytest.fixture
def spec(document):
    return feature_specs.parse(document)


class Adds(Constant):
    """Adds the outputs {name: function of features}."""

    outputs = types.MappingProxyType({})

    def logits(self, features, mode):
        for name, make in self.outputs.items():
            self.add_output(name, make(features))
        return super().logits(features, mode)


def adding(outputs, spec):
    model = Adds(spec)
    model.outputs = outputs
    return model


def refused(outputs, spec, check=outline):
    with pytest.raises(ek.ConfigError) as error:
        check(adding(outputs, spec))
    return str(error.value)


def price(features):
    return features["price"]


@pytest.mark.ci
def test_every_name_of_the_kit_is_refused_before_a_training(spec):
    _, made = build(Constant(spec), ModeKeys.PREDICT)
    names = {*made.predictions, *made.export_outputs, "predict_raw"}
    assert {"click/logits", "predict/click", "classify/buy", "serving_default"} < names
    for name in sorted(names):
        message = refused({name: price}, spec, lambda model: build(model, ModeKeys.PREDICT))
        found = re.fullmatch(
            PLACE + re.escape(f"got the output {name!r}, which the kit makes already. ")
            + r"Use another name\.", message,
        )  # fmt: skip
        assert found, message
    # `outline` finds them: the first in the graph of an evaluation, the second of a prediction.
    for name in ("click/logits", "predict/click"):
        assert f"got the output {name!r}" in refused({name: price}, spec)


@pytest.mark.parametrize("method", ["add_output", "add_loss"])
def test_a_call_after_logits_is_refused(spec, method):
    class Late(Constant):
        def loss(self, losses):
            getattr(self, method)("late", losses["click"])
            return super().loss(losses)

    with pytest.raises(ek.ConfigError) as error:
        build(Late(spec), ModeKeys.EVAL)
    text = f"Late.{method}: got a call outside of logits. Call it in logits."
    assert re.fullmatch(re.escape(__file__) + r":\d+: " + re.escape(text), str(error.value))


def test_a_name_that_is_used_twice_or_is_no_text_is_refused(spec):
    class Adds(Constant):
        name = "mine"

        def logits(self, features, mode):
            self.add_output(self.name, features["price"])
            self.add_output(self.name, features["price"] * 2)
            return super().logits(features, mode)

    model = Adds(spec)
    for name, text in (
        ("mine", r"got the output 'mine' twice\. Use another name\."),
        ("", r"expected a name, got ''\. Use a text\."),
        (3, r"expected a name, got 3\. Use a text\."),
    ):
        model.name = name
        with pytest.raises(ek.ConfigError) as error:
            outline(model)
        assert re.fullmatch(PLACE + text, str(error.value))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: tf.reduce_mean(f["price"]),
         r"expected a value for each row for 'mine', got one value, .*\. Use tf\.fill\(\[rows\], "
         r"value\), where rows is the number of rows of the features\."),
        (lambda f: 0.5, rf"{TENSOR} got 0\.5\. Use a tensor that "
         r"depends on the features\."),
        (lambda f: np.ones(3), rf"{TENSOR} got array.*"),
        (lambda f: tf.ones([3, 2]),
         r"expected one value for each row for 'mine', got .* with 3 rows "
         r"instead of the rows of the batch\. Do not flatten or sum over rows, and do not add a "
         r"constant\."),
        (lambda f: tf.reshape(tf.tile(f["price"], [1, 4]), [-1]),
         r"expected one value for each row for 'mine', got .* with 12 rows instead of 3\. .*"),
        (lambda f: tf.concat([f["price"], f["price"]], 0),
         r"expected one value for each row for 'mine', got .* with 6 rows instead of 3\. .*"),
        (lambda f: tf.reduce_sum(f["price"], 0, keepdims=True),
         r"expected one value for each row for 'mine', got .* with 1 rows instead of .*"),
        (lambda f: tf.RaggedTensor.from_tensor(f["price"]),
         rf"{TENSOR} got tf\.Ragged.*\. Use its to_tensor\(\)\."),
        (lambda f: tf.sparse.from_dense(f["price"]),
         rf"{TENSOR} got Sparse.*\. Use tf\.sparse\.to_dense\."),
        (lambda f: tf.compat.v1.get_variable("v", [2], use_resource=True),
         rf"{TENSOR} got <tf\.Variable.*\. A variable has no "
         r"rows\."),
        (lambda f: other_graph(),
         r"the tensor for 'mine' belongs to another graph, got .*\. Make it in each call, and keep "
         r"no tensor in self\."),
    ],
)  # fmt: skip
def test_a_value_that_is_not_one_per_row_is_refused_before_a_training(spec, make, message):
    assert re.fullmatch(PLACE + message, refused({"mine": make}, spec), re.S)


def other_graph():
    with tf.Graph().as_default():
        return tf.compat.v1.placeholder(tf.float32, [None])


def test_any_value_of_each_row_is_an_output(spec):
    def cut(features):  # Its rank is unknown.
        return tf.numpy_function(lambda x: x, [features["price"]], tf.float32)

    outputs = {
        "one": lambda f: f["price"][:, 0],
        "many/click_": lambda f: tf.tile(f["price"][:, None], [1, 2, 3]),
        "filled": lambda f: tf.fill([tf.shape(f["price"])[0]], tf.reduce_mean(f["price"])),
        "text": lambda f: tf.as_string(f["price"]),
        "unknown": cut,
    }
    outline(adding(outputs, spec))
    _, made = build(adding(outputs, spec), ModeKeys.PREDICT)
    assert set(outputs) < set(made.predictions) and set(outputs) < set(made.export_outputs)


def test_a_model_that_fails_only_in_predictions_fails_before_a_training(spec):
    class Fails(Constant):
        def logits(self, features, mode):
            if mode == ModeKeys.PREDICT:
                features["prise"]
            return super().logits(features, mode)

    with pytest.raises(ek.ConfigError, match=r"Fails\.logits: the key 'prise' does not exist"):
        outline(Fails(spec))
