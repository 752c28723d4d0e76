"""tensor_equality: which comparisons in a user's code are named, and that none changes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model import tensor_equality
from tests.estimator_kit.model.test_model_fn import Constant, build


def sentence(operator, line, result, function):
    return (
        f"{__file__}:{line}: {operator} on tensors is always {result} here, because in an "
        f"Estimator's graph it asks whether they are the same object. Use {function}."
    )


def said_of(caplog, compare):
    """What is logged of `compare(a, b)`, two tensors of a v1 graph; its result."""
    with tf.Graph().as_default(), caplog.at_level("WARNING", "estimator_kit"):
        a, b = tf.constant([1.0]), tf.constant([1.0])
        with tensor_equality.warned():
            result = compare(a, b)
    return messages(caplog), result


def messages(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "estimator_kit"]


@pytest.mark.parametrize(
    ("compare", "operator", "result", "function"),
    [
        (lambda a, b: a == b, "==", False, "tf.equal"),
        (lambda a, b: a == 1, "==", False, "tf.equal"),
        (lambda a, b: 1 == a, "==", False, "tf.equal"),  # noqa: SIM300
        (lambda a, b: np.float32(1) == a, "==", False, "tf.equal"),
        (lambda a, b: a != b, "!=", True, "tf.not_equal"),
    ],
)
def test_a_comparison_is_named(caplog, compare, operator, result, function):
    said, got = said_of(caplog, compare)
    assert said == [sentence(operator, compare.__code__.co_firstlineno, result, function)]
    assert got is result


@pytest.mark.parametrize(
    "compare",
    [
        lambda a, b: a == None,  # noqa: E711
        lambda a, b: a in [b, a],
        lambda a, b: [b, a].index(a),
        lambda a, b: {a.ref(): 1}[a.ref()],
        lambda a, b: tf.equal(a, b),
    ],
)
def test_what_is_right_is_not_named(caplog, compare):
    assert said_of(caplog, compare)[0] == []


def test_a_place_is_named_once_and_afterwards_the_operators_are_tensorflows(caplog):
    before = {name: vars(tf.Tensor)[name] for name in ("__eq__", "__ne__")}

    def compare(a, b):
        with tensor_equality.warned():
            return [a == b for _ in range(3)]

    said, _ = said_of(caplog, compare)
    assert len(said) == 1
    with pytest.raises(ZeroDivisionError), tensor_equality.warned():
        raise ZeroDivisionError
    assert {name: vars(tf.Tensor)[name] for name in ("__eq__", "__ne__")} == before


class Comparing(Constant):
    def logits(self, features, mode):
        logits = super().logits(features, mode)
        return tf.where(features["user"] == 1, logits, -logits)  # Always -logits.


def test_a_models_comparison_is_named(document, caplog):
    with tf.Graph().as_default(), caplog.at_level("WARNING", "estimator_kit"):
        build(Comparing(feature_specs.parse(document)), tf.estimator.ModeKeys.PREDICT)
    line = inspect.getsourcelines(Comparing.logits)[1] + 2
    assert messages(caplog) == [sentence("==", line, False, "tf.equal")]
