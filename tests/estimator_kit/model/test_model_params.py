"""The parameters of every model: the learning rate that belongs to an optimizer."""

from __future__ import annotations

import pytest

from estimator_kit.model.model_params import ModelParams, checked_params
from estimator_kit.models import MODELS
from estimator_kit.optimizers.choice import make_optimizer
from estimator_kit.optimizers.kinds import OPTIMIZERS

WIDE_DEEP = MODELS["wide_deep"].Params


class Slow(ModelParams):
    """A model with its own rate for its own optimizer."""

    optimizer: str = "adam"
    learning_rate: float = 1e-5


@pytest.mark.parametrize(
    ("model", "optimizer", "rate"),
    [
        ("wide_deep", "adagrad", 0.05),
        ("linear", "ftrl", 0.1),
        ("sasrec", "adam", 0.001),
        ("dnn", "lazy_adam", 0.001),
        ("fm", "lazy_adam", 0.001),
        ("two_tower", "lazy_adam", 0.001),
    ],
)
def test_the_default_of_a_model(model, optimizer, rate):
    params = MODELS[model].Params()
    assert (params.optimizer, params.learning_rate) == (optimizer, rate)


@pytest.mark.parametrize(
    ("kind", "values", "rates"),
    [
        (ModelParams, {"optimizer": "lazy_adam"}, {"learning_rate": 0.001}),
        (ModelParams, {"optimizer": {"momentum": {"momentum": 0.5}}}, {"learning_rate": 0.01}),
        (ModelParams, {"optimizer": "adam", "learning_rate": 0.3}, {"learning_rate": 0.3}),
        (ModelParams, {"optimizer": "adam", "learning_rate": None}, {"learning_rate": 0.001}),
        (WIDE_DEEP, {}, {"learning_rate": 0.05, "linear_learning_rate": 0.1}),
        (WIDE_DEEP, {"linear_optimizer": "adam"}, {"linear_learning_rate": 0.001}),
        (WIDE_DEEP, {"learning_rate": 0.2}, {"learning_rate": 0.2, "linear_learning_rate": 0.1}),
        (Slow, {}, {"learning_rate": 1e-5}),
        (Slow, {"optimizer": "adam"}, {"learning_rate": 1e-5}),
        (Slow, {"optimizer": "adagrad"}, {"learning_rate": 0.05}),
    ],
)
def test_a_rate_that_nobody_gives_is_that_of_the_optimizer(kind, values, rates):
    params = kind(**values)
    assert {name: getattr(params, name) for name in rates} == rates


def test_optimizers_of_parts_have_their_own_rates():
    parts = {"linear/": "ftrl", "dnn/": {"adam": {"beta1": 0.5}}, "": {"sgd": {"learning_rate": 1}}}
    assert ModelParams(optimizers=parts).optimizers == {
        "linear/": {"ftrl": {"learning_rate": 0.1}},
        "dnn/": {"adam": {"beta1": 0.5, "learning_rate": 0.001}},
        "": {"sgd": {"learning_rate": 1}},
    }
    # The rate of the model is for all of them.
    assert ModelParams(optimizers=parts, learning_rate=0.2).optimizers == parts


def test_a_rate_is_not_taken_over_for_another_optimizer():
    values = {**ModelParams().given(), "optimizer": "adam"}
    assert ModelParams(**values).learning_rate == 0.001
    values = {**ModelParams(learning_rate=0.2).given(), "optimizer": "adam"}
    assert ModelParams(**values).learning_rate == 0.2
    # An instance of another class keeps its optimizer, and so its rate.
    assert checked_params("linear", MODELS["linear"].Params, ModelParams()).learning_rate == 0.05


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimizer_has_a_rate(name):
    assert make_optimizer(name).rate_now == OPTIMIZERS[name].default_rate > 0
