"""The stages of a training, with a trainer that runs no step."""

from __future__ import annotations

import contextlib
import json
import os
import types

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.checkpoints import reading
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import command_of
from estimator_kit.training import preparation
from estimator_kit.training.hooks.stop import StopRequest
from estimator_kit.training.position import InputPosition
from estimator_kit.training.preparation import prepared
from estimator_kit.training.run import Training
from estimator_kit.training.trainer import Trainer
from input_pipelines.reading.negatives import Negatives
from tests.conftest import small_run


class Recording(Trainer):
    """Records each call, and whether result.json existed then."""

    def __init__(self, config, **given):
        super().__init__(config, StopRequest(), **given)
        self.calls = []

    def call(self, name):
        self.calls.append((name, os.path.exists(f"{self._command.run.model_dir}/result.json")))

    @contextlib.contextmanager
    def announcing_the_end(self):
        self.call("announcing")
        yield
        self.call("announced")

    def begin(self):
        self.call("begin")

    def estimator(self, model):
        self.call("estimator")

    def train(self, steps):
        self.call("train")
        self.steps = steps
        self.reason = kept(self._command.settings)["status"]

    def rows(self, source, plan, *, read, step, exhausted):
        assert (read, step, exhausted) == (0, 0, True)
        return 7, 3

    def leaves_evaluation(self):
        self.call("leaves_evaluation")
        return True


def kept(config):
    with open(f"{config.model_dir}/result.json") as file:
        return json.load(file)


@pytest.fixture
def training(ads, tmp_path):
    config = small_run(ads, tmp_path / "model")(mode="train_and_evaluate", epochs=1)
    trainer = Recording(command_of(config), task="chief:0")
    with prepared(command_of(config)) as made:
        yield config, trainer, Training(command_of(config), made.spec, made.model, trainer)


def test_nothing_is_written_before_a_training_begins(training):
    config, trainer, stages = training
    stages.check()
    stages.plan()
    assert not trainer.calls and not os.path.exists(config.model_dir)


def test_a_data_service_needs_a_process_without_op_determinism(ads, tmp_path):
    """Its batches need the clock. TensorFlow would stop the first step, with a traceback."""
    tf.config.experimental.enable_op_determinism()
    config = small_run(ads, tmp_path / "model")(data_service="grpc://localhost:1", epochs=1)
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config)
    assert str(error.value) == (
        "--data_service: op determinism is enabled in this process, for example by an earlier run "
        "with --deterministic. It lasts until the process ends, and a tf.data service does not "
        "work with it. Start this run in a new process."
    )
    assert not os.path.exists(config.model_dir)


def test_a_trainer_is_asked_in_the_order_of_the_stages(training):
    config, trainer, stages = training
    result = stages.run()
    assert trainer.calls == [
        ("announcing", False), ("begin", False), ("estimator", True), ("train", True),
        ("leaves_evaluation", True), ("announced", True),
    ]  # fmt: skip
    # 400 rows in batches of 50.
    assert trainer.steps.max_steps == result.steps_planned == 8
    assert trainer.reason == "running"
    found = kept(config)
    assert (found["status"], found["stop_reason"], found["task"]) == (
        "done", "input_exhausted", "chief:0"
    )  # fmt: skip
    assert (found["rows_trained"], found["rows_lost"], found["metrics"]) == (7, 3, {})


def test_what_a_trainer_raises_is_in_the_result(training):
    config, trainer, stages = training

    def fail(steps):
        raise RuntimeError("no step")

    trainer.train = fail
    with pytest.raises(RuntimeError, match="no step"):
        stages.run()
    found = kept(config)
    assert (found["status"], found["error"]) == ("failed", "RuntimeError: no step")
    assert [name for name, _ in trainer.calls] == ["announcing", "begin", "estimator"]


def test_epochs_that_the_plan_did_not_count_are_counted_after_a_later_checkpoint(monkeypatch):
    """With --keep_negatives, each epoch keeps other rows."""
    planned = InputPosition(step=10)
    training = Training.__new__(Training)
    training._model_dir, training._cache = "m", None
    training._plan = types.SimpleNamespace(position=planned, counts="counted")

    def counts_at(step, *, negatives, epochs):
        monkeypatch.setattr(reading, "latest_step", lambda folder: step)
        training._command = types.SimpleNamespace(training=types.SimpleNamespace(epochs=epochs))
        training._source = types.SimpleNamespace(
            negatives=negatives, input_from=lambda position, counts, cache: (position.step, counts)
        )
        return training._input()

    some = Negatives("click", 0.1)
    assert counts_at(None, negatives=some, epochs=None) == (10, "counted")
    assert counts_at(10, negatives=some, epochs=None) == (10, "counted")
    assert counts_at(20, negatives=some, epochs=None) == (20, None)
    assert counts_at(20, negatives=some, epochs=3) == (20, "counted")
    assert counts_at(20, negatives=None, epochs=None) == (20, "counted")


def test_chief_and_evaluator_write_the_default_data(monkeypatch):
    wrote = []
    monkeypatch.setattr(preparation, "write_default_data", wrote.append)
    for task in ("chief", "worker", "ps", "evaluator"):
        preparation.generate_data(task, ClusterView("host:1", task_type=task))
    preparation.generate_data("alone", None)
    assert wrote == ["chief", "evaluator", "alone"]
