"""auto: the search that `--search=auto` makes for a spec and some flags."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError
from estimator_kit.tuning import auto, checks
from feature_specs.parser import parser


@pytest.fixture
def search_of(ads):
    def make(search="auto", **changes):
        given = {
            "mode": "tune", "spec": f"{ads}/spec.yaml", "model_dir": "runs/search",
            "train_files": (f"{ads}/train-*",), "eval_files": (f"{ads}/eval.tfrecord",), **changes,
        }  # fmt: skip
        command = command_of(ek.ExperimentConfig(**given, search=search))
        spec = parser.load(command.run.spec)
        return command, spec, auto.search_of(command, spec)

    return make


def test_the_space_has_the_models_of_the_spec_and_their_declared_parameters(search_of):
    command, spec, search = search_of(
        model="dnn", batch_size=100, model_params={"dropout": 0.7, "learning_rate": 0.5}
    )
    models = search.parameters["model"].choice
    assert models[0] == "dnn" and {"wide_deep", "linear", "dcn"} <= set(models)
    assert "sasrec" not in models  # It is for histories.
    assert search.parameters["batch_size"].choice == (50, 100, 200)
    # The values that the trials begin with widen what is declared.
    assert search.parameters["dropout"].span == (0, 0.7)
    assert "linear" not in search.parameters["dropout"].when["model"]
    assert search.parameters["learning_rate"].span == (0.0003, 0.5)
    assert search.parameters["learning_rate"].log
    assert search.parameters["crosses"].when == {"model": ["dcn"]}
    given, second, third = search.first
    assert given == {
        "model": "dnn", "batch_size": 100, "optimizer": "lazy_adam", "learning_rate": 0.5,
        "hidden_units": [256, 128, 64], "dropout": 0.7, "regularizer": None,
    }  # fmt: skip
    assert (second["model"], third["model"]) == (models[1], models[2])
    assert second["dropout"] == 0  # The default, not the value of the flags.
    configs = checks.check_names(command, search, spec)
    assert {config.model for _, config in configs} == set(models)


def test_the_metric_and_the_time(search_of):
    _, _, search = search_of()
    assert (search.watched, search.direction, search.budget) == ("auc/click", "max", 300.0)
    _, _, search = search_of("auto:2m", best_metric="loss/click")
    assert (search.watched, search.direction, search.budget) == ("loss/click", "min", 120.0)
    assert "regularizer" not in search.parameters  # It changes what the loss means.
    for text in ("auto:", "auto:0m", "auto:5 m"):
        with pytest.raises(ConfigError, match="expected a time above 0 after the colon"):
            search_of(text)
    assert search_of("search.yaml")[2] is None


def test_a_model_of_another_purpose_is_searched_alone(search_of):
    _, _, search = search_of(model="mmoe")
    assert "model" not in search.parameters
    assert len(search.first) == 1 and "learning_rate" in search.first[0]
