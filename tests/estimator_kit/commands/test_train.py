"""The command around a training: what it reports if something after the training fails."""

from __future__ import annotations

import types

import pytest

from estimator_kit.commands import train
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError
from estimator_kit.result import RunResult


def test_page_and_services_come_before_the_error_of_a_measurement(monkeypatch):
    """The training has ended, and a scheduler and its people must see that."""
    told = []
    services = types.SimpleNamespace(training=told.append)
    result = RunResult(mode="train_and_evaluate", exports={"final": "m/export/final/1"})

    def broken(*arguments):
        raise ConfigError("an evaluation file is gone")

    monkeypatch.setattr(train, "Services", lambda *areas: services)
    monkeypatch.setattr(train.parser, "load", lambda path: None)
    monkeypatch.setattr(train.measured, "check", lambda *arguments, **named: None)
    monkeypatch.setattr(train.tasks, "train", lambda config, spec: result)
    monkeypatch.setattr(train, "_measure", broken)
    monkeypatch.setattr(train, "_count_flops", lambda *arguments: None)
    monkeypatch.setattr(train.report, "summary", lambda *arguments: "summary")
    monkeypatch.setattr(train.page, "attempt", lambda write: write())
    monkeypatch.setattr(train.page, "write", lambda folder: "page")
    monkeypatch.setattr(
        train.ending, "finish", lambda *arguments, with_slices: f"slices: {with_slices}"
    )
    config = ExperimentConfig(
        spec="s", model_dir="m", slices=("city",), train_files=("t",), eval_files=("e",),
        max_steps=1,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="an evaluation file is gone"):
        train.run(command_of(config), told.append)
    assert told == ["summary", "page", "done", "slices: False"]
