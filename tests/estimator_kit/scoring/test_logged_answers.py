"""Scores of objectives from the outputs of each signature; nothing is guessed."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from estimator_kit.scoring import logged_answers
from feature_specs.parser import parser

ONE = np.array([[-1.0], [2.0]], np.float32)


@pytest.fixture
def one(document):
    document = copy.deepcopy(document)
    del document["labels"]["buy"], document["objectives"]["buy"]
    return parser.parse(document)


@pytest.mark.parametrize("signature", ["", "serving_default", "predict/click"])
def test_outputs_without_the_name_of_the_only_objective(one, signature):
    found = logged_answers.scores(one, signature, {"logits": ONE}, 2)
    assert found["click"].tolist() == [-1, 2]


def test_outputs_that_may_be_of_any_objective_are_not_used(document):
    spec = parser.parse(document)
    assert logged_answers.scores(spec, "serving_default", {"logits": ONE}, 2) == {}
    assert [*logged_answers.scores(spec, "predict/buy", {"logits": ONE}, 2)] == ["buy"]
    assert logged_answers.scores(spec, "", {"click/logits": ONE[:1]}, 2) == {}
    assert logged_answers.scores(spec, "", {"click/classes": ONE}, 2) == {}


def test_other_heads(document):
    document["labels"] = {
        "price": {"dtype": "float32"}, "grade": {"dtype": "int64"}, "rate": {"dtype": "float32"},
    }  # fmt: skip
    document["features"]["cost"] = document["features"].pop("price")
    document["columns"]["price"]["numeric"] = "cost"
    document["objectives"] = {
        "price": {"head": "regression"}, "grade": {"head": "multi_class", "num_classes": 3},
        "rate": {"head": "logistic_regression"},
    }  # fmt: skip
    spec = parser.parse(document)
    shares = np.array([[0.2, 0.7, 0.1], [0.5, 0.2, 0.3]], np.float32)
    found = logged_answers.scores(
        spec,
        "predict_examples",
        {
            "price/predictions": ONE,
            "grade/probabilities": shares,
            "rate/predictions": np.array([[0.5], [1.0]], np.float32),
        },
        2,
    )
    assert found["price"].tolist() == [-1, 2]
    np.testing.assert_allclose(found["grade"], shares)
    assert found["rate"][0] == 0 and np.isfinite(found["rate"][1]) and found["rate"][1] > 15
    assert logged_answers.shown(spec.objectives["grade"], found["grade"]).tolist() == [1, 0]
    assert logged_answers.shown(spec.objectives["price"], found["price"]).tolist() == [-1, 2]
    np.testing.assert_allclose(
        logged_answers.shown(spec.objectives["rate"], found["rate"]), [0.5, 1], atol=1e-7
    )
