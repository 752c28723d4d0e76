"""How a start differs from the last start of its model directory, by aspects."""

from __future__ import annotations

import copy

import pytest

from estimator_kit.checkpoints import run_record
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.models import MODELS
from feature_specs.parser import parser


@pytest.fixture
def start(tmp_path, document):
    """A function: the command, spec and model of a start, with changes."""

    def make(params=None, objective=None, **settings):
        given = {"mode": "train_and_evaluate", "spec": "s", "train_files": ("t",), "max_steps": 5}
        config = ExperimentConfig(
            **{**given, "eval_files": ("e",), "model_dir": str(tmp_path), **settings}
        )
        changed = copy.deepcopy(document)
        changed["objectives"]["click"].update(objective or {})
        changed["raw"] = ["user"]
        spec = parser.parse(changed)
        return command_of(config), spec, MODELS["dnn"](spec, params or {})

    command, spec, model = make()
    assert run_record.changes(command, spec, model, ["training"]) == []  # Nothing was started here.
    run_record.write_record(command, spec)
    run_record.write_params(str(tmp_path), model.params)
    return make


def test_how_a_training_goes_on_is_said_by_name(start, caplog):
    caplog.set_level("INFO", logger="estimator_kit")
    run_record.say_changes(*start(), 5)
    # They change no number that a training finds.
    run_record.say_changes(*start(report="off", eval_steps=3, default_signature="predict_raw"), 5)
    assert caplog.messages == []
    other = start({"learning_rate": 0.1, "dropout": 0.5}, {"loss_weight": 2}, batch_size=7)
    run_record.say_changes(*other, 5)
    assert caplog.messages == [
        "training goes on at step 5 otherwise than before: --batch_size: was 512, is 7; "
        "learning_rate: was 0.001, is 0.1; dropout: was 0.0, is 0.5; "
        "objectives.click.loss_weight: was 1.0, is 2.0"
    ]


def test_other_outputs_are_those_of_exports(start):
    assert run_record.other_outputs(*start({"learning_rate": 0.1}, batch_size=7)) == []
    other = {"params": {"forward_features": ["user"]}, "default_signature": "predict/click"}
    assert run_record.other_outputs(*start(**other)) == [
        '--default_signature: was "predict_examples", is "predict/click"',
        'forward_features: was [], is ["user"]',
    ]
    assert run_record.other_outputs(*start(**other, exporters=())) == []
    assert run_record.other_outputs(*start(**other, mode="train")) == []
