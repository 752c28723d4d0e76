"""A wrong key in a user's model is an error that names the class, the place and the keys."""

from __future__ import annotations

import re
import types

import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import user_code
from tests.estimator_kit.model.test_model_fn import Constant, build


class WrongFeature(Constant):
    def logits(self, features, mode):
        del mode
        return features["prise"]


class WrongObjective(Constant):
    def loss(self, losses):
        return losses["returned"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            WrongFeature,
            r"WrongFeature\.logits: the key 'prise' does not exist\. Did you mean 'price'\? "
            r"`features` has the keys .*\bprice\b.*\.",
        ),
        (
            WrongObjective,
            r"WrongObjective\.loss: the key 'returned' does not exist\. `losses` has the keys buy, "
            r"click\.",
        ),
    ],
)
def test_a_wrong_key_names_the_class_the_line_and_the_keys(document, model, message):
    spec = feature_specs.parse(document)
    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        build(model(spec), tf.estimator.ModeKeys.TRAIN)
    place = rf"{re.escape(__file__)}:\d+: "
    assert re.fullmatch(place + message, str(error.value)), str(error.value)


def _raise():
    raise KeyError("a")


def test_a_key_error_of_other_code_stays():
    def raise_in(module):
        types.FunctionType(_raise.__code__, {"__name__": module, "KeyError": KeyError})()

    for module in ("estimator_kit.model.input_layer", "tensorflow.python.ops"):
        with pytest.raises(KeyError), user_code.explained(None, "logits", features=["b"]):
            raise_in(module)
    with (
        pytest.raises(ek.ConfigError, match=rf"^{re.escape(__file__)}:\d+: NoneType.logits: "),
        user_code.explained(None, "logits", features=["b"]),
    ):
        raise_in("my_models")
