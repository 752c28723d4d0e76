"""The command around a training: what it reports if something after the training fails."""

from __future__ import annotations

import types

import pytest

from estimator_kit.commands import reference_models, train
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError, NothingToDo
from estimator_kit.observing import standing
from estimator_kit.result import (
    ComparedObjective,
    ReferenceModel,
    ReferenceModels,
    RunResult,
    read_result,
    result_path,
)


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


def command_with(**values):
    defaults = {
        "spec": "s", "model_dir": "m", "train_files": ("t",), "eval_files": ("e",),
        "max_steps": 1, "reference_models": ("constant",),
    }  # fmt: skip
    return command_of(ExperimentConfig(**{**defaults, **values}))


def test_what_fails_is_in_the_result_and_not_an_error(tmp_path, monkeypatch):
    def broken(*arguments, **named):
        raise OSError("a training file is gone")

    monkeypatch.setattr(reference_models.files, "expand", broken)
    result = RunResult(mode="train_and_evaluate", exports={"final": "e/1"}, rows_trained=3)
    found = reference_models.compare(command_with(model_dir=str(tmp_path)), None, result)
    expected = ReferenceModels(export="e/1", error="OSError: a training file is gone")
    assert found.reference_models == expected
    written = read_result(str(tmp_path))
    assert written.reference_models == expected and written.rows_trained == 3


def test_what_another_task_has_written_stays(tmp_path, monkeypatch):
    RunResult(mode="train_and_evaluate", rows_trained=7).save(result_path(str(tmp_path)))
    monkeypatch.setattr(reference_models, "_compared", lambda *arguments: ReferenceModels())
    result = RunResult(mode="train_and_evaluate", exports={"final": "e/1"})
    reference_models.compare(command_with(model_dir=str(tmp_path)), None, result)
    written = read_result(str(tmp_path))
    assert written.rows_trained == 7 and written.reference_models == ReferenceModels()


@pytest.mark.parametrize("flag", ["input_fn", "train_mix"])
def test_rows_that_are_not_in_files(flag):
    values = {"input_fn": "m:f", "train_mix": ("a=1", "b=2")}
    files = {"train_files": ()}
    command = command_with(**files, **{flag: values[flag]})
    found = reference_models._compared(
        command, None, RunResult(mode="train_and_evaluate", exports={"final": "e/1"})
    )
    assert found.error == f"They read the rows of --train_files, and this training has --{flag}."


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        (None, True),
        (ReferenceModels(export="e/1", objectives={}), False),
        (ReferenceModels(export="e/0", objectives={}), True),
        (ReferenceModels(export="e/1", objectives={"y": ComparedObjective(
            references={"linear": ReferenceModel()})}), True),
        (ReferenceModels(export="e/1", objectives={"y": ComparedObjective(
            references={"constant": ReferenceModel()})}), False),
        (ReferenceModels(export="e/1", objectives={"y": ComparedObjective(error="no")}), False),
        (ReferenceModels(export="e/1", error="OSError: full"), True),
    ],
)  # fmt: skip
def test_whether_a_finished_training_lacks_a_comparison(compared, expected):
    exports = command_with().exports
    result = RunResult(mode="m", exports={"final": "e/1"}, reference_models=compared)
    assert reference_models.missing(exports, result) is expected


def test_a_training_without_an_export_lacks_nothing():
    assert not reference_models.missing(command_with().exports, RunResult(mode="m"))


def test_a_finished_training_is_compared_and_ends_well(tmp_path, monkeypatch):
    """The flag was added later. Without it, there is nothing to do."""

    def finished(command, spec):
        raise NothingToDo("the training has ended")

    told = []
    services = types.SimpleNamespace(training=lambda state: None)
    compared = ReferenceModels(export="e/1", error="for this test")
    RunResult(mode="train_and_evaluate", exports={"final": "e/1"}).save(result_path(str(tmp_path)))
    monkeypatch.setattr(train, "Services", lambda *areas: services)
    monkeypatch.setattr(train.parser, "load", lambda path: None)
    monkeypatch.setattr(train.measured, "check", lambda *arguments, **named: None)
    monkeypatch.setattr(train.tasks, "train", finished)
    monkeypatch.setattr(
        train.report, "summary", lambda run, data, spec, result, training: standing.headline(result)
    )
    monkeypatch.setattr(train.ending, "finish", lambda *arguments, with_slices: "end")
    monkeypatch.setattr(reference_models, "_compared", lambda *arguments: compared)
    values = {"model_dir": str(tmp_path), "report": "off"}
    result = train.run(command_with(**values), told.append)
    assert result.reference_models == compared
    assert told == ["No reference models: for this test", "end"]
    with pytest.raises(NothingToDo):
        train.run(command_with(**values, reference_models=()), told.append)


def test_rows_of_the_set_test_are_compared(monkeypatch):
    """The rows that judge have chosen the export."""
    seen = {}
    files = {"--train_files": ["t"], "--eval_files, set test": ["x"]}
    screened = types.SimpleNamespace(files=files, damaged={})
    monkeypatch.setattr(reference_models.bad_data, "screen", lambda *arguments: screened)
    monkeypatch.setattr(reference_models.files, "expand", lambda paths, **named: list(paths))
    monkeypatch.setattr(
        reference_models, "all_paths",
        lambda *arguments: {"--eval_files": ["e"], "--eval_files, set test": ["x"]},
    )  # fmt: skip

    def compare(spec, export, train_files, eval_files, names, **named):
        seen.update(train=train_files, evaluated=eval_files, names=names)
        return ReferenceModels(export=export)

    monkeypatch.setattr(reference_models.references, "compare", compare)
    result = RunResult(mode="train_and_evaluate", exports={"final": "e/1"})
    command = command_with(eval_files=("e", "test=x"))
    found = reference_models._compared(command, None, result)
    assert seen == {"train": ["t"], "evaluated": ["x"], "names": ("constant",)}
    assert found.eval_set == "--eval_files, set test"
