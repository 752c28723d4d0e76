"""What the gate's stage knows of the days that models were trained on, and of their files."""

from __future__ import annotations

import logging
import os
import types

import pytest
import tensorflow as tf

from estimator_kit.errors import Locked
from estimator_kit.retraining import cycle_files, cycle_versions, gate_stage, stages
from estimator_kit.retraining.facts import Facts
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.promotion import Serving
from estimator_kit.retraining.training_stage import Start, Trained
from estimator_kit.retraining.vocabularies import Vocabularies
from estimator_kit.retraining.window import PeriodData
from feature_specs.parser import parser
from input_pipelines.errors import DataError
from input_pipelines.record_files import writing
from tests.conftest import make_rows
from tests.estimator_kit.retraining import reports


def day(number):
    return (PeriodData(name=f"2026-01-{number:02d}", digest="", rows=1, files=()),)


class Model:
    """A model directory whose cycles have windows and starts, but no training."""

    def __init__(self, folder):
        self.folder = str(folder / "model")
        self.serving = Serving(str(folder / "serving"), self.folder)
        self.export = str(folder / "export")
        os.makedirs(self.export)

    def cycle(self, trained, start=None, *, goes_live=False):
        """A cycle that was trained up to a day, and evaluated on the next."""
        cycle = cycle_files.new(self.folder)
        cycle.save(reports.window(train=day(trained), evaluate=day(trained + 1)))
        cycle.save(Start(kind="last", cycle=start))
        if goes_live:
            token = cycle_versions.begin(cycle, self.serving)
            self.serving.publish(
                self.export, cycle=cycle.name, verify=lambda path: None, token=token
            )
        return cycle

    def known_days(self, start, *evaluate):
        """The known days of a cycle with this start, of the days it is evaluated on."""
        trained = Trained(start=Start(kind="last", cycle=start))
        running = types.SimpleNamespace(
            command=types.SimpleNamespace(run=types.SimpleNamespace(model_dir=self.folder)),
            serving=self.serving,
            window=reports.window(evaluate=tuple(day(n)[0] for n in evaluate)),
            folder=types.SimpleNamespace(output=lambda form: trained),
        )
        return [name[-2:] for name in stages._known_periods(running)]


@pytest.fixture
def model(tmp_path):
    return Model(tmp_path)


def test_a_model_also_knows_the_days_of_the_models_that_it_came_from(model):
    """Cycle 2 was refused, then day 11 was removed, and cycle 3 started from cycle 2."""
    model.cycle(9, goes_live=True)
    model.cycle(10, "0001")
    model.cycle(9, "0002")
    assert model.known_days("0003", 10) == ["10"]
    assert model.known_days("0001", 10) == []
    assert model.known_days("0003", 9, 10, 11) == ["09", "10"]
    assert model.known_days(None, 9, 10) == ["09"]  # The live model.


def test_a_version_of_another_model_directory_has_unknown_days(model, caplog):
    """`cycles/` was removed, so the live version's cycle 0001 is not the new cycle 0001."""
    model.serving.publish(model.export, cycle="0001", verify=lambda path: None)
    model.cycle(20)
    with caplog.at_level(logging.WARNING):
        assert model.known_days(None, 9, 10) == []
    assert caplog.messages == [
        f"version 1 in {model.serving.folder} is not of a cycle in {model.folder}, so the periods "
        "on which it was trained are unknown"
    ]


def test_a_model_does_not_replace_one_that_it_was_not_compared_with(model, monkeypatch):
    """Another model directory published in the same serving directory after the gate."""
    model.serving.publish(model.export, cycle="0001", verify=lambda path: None)
    folder = cycle_files.new(model.folder)
    judged = Judged(passed=True, candidate=model.export, live_version=None, rows=1)
    for output in (judged, Vocabularies(spec="")):
        folder.save(output)
    running = types.SimpleNamespace(
        folder=folder, serving=model.serving, answers=None, window=reports.window(),
        command=types.SimpleNamespace(retraining=types.SimpleNamespace(promote_as=None)),
    )  # fmt: skip
    monkeypatch.setattr(parser, "load", lambda path, stored: None)
    monkeypatch.setattr(gate_stage, "verify", lambda *arguments: lambda path: None)
    with pytest.raises(Locked) as error:
        stages.promote(running)
    assert str(error.value) == (
        f"another model went live in {model.serving.folder} after the gate: expected no version, "
        "got version 1. Start again: the next start compares with the model that is live now."
    )
    assert model.serving.live.number == 1
    assert sorted(os.listdir(model.serving.folder)) == [".lock", "1"]
    # The same number in another serving directory is another model.
    changes = {"live_version": 1, "live_token": "of another directory"}
    folder.save(judged.model_copy(update=changes))
    with pytest.raises(Locked, match="expected version 1, got another version 1"):
        stages.promote(running)
    folder.save(judged.model_copy(update={"live_version": 1}))  # The verdict of an older kit.
    assert stages.promote(running).version == 2


def test_a_missing_window_is_told(model, caplog):
    model.cycle(9, goes_live=True)
    second = model.cycle(10, "0001")
    os.remove(second.at("window.json"))
    with caplog.at_level(logging.WARNING):
        assert model.known_days("0002", 9, 10) == ["09"]
    assert caplog.messages == [
        f"{second.at('window.json')} is missing, so the periods on which that cycle was trained "
        "are unknown"
    ]


def test_a_file_in_a_store_is_read_again_only_if_it_was_written_again(
    document, tmp_path, monkeypatch
):
    path = "ram://test_stages/a.tfrecord"
    writing.write_examples(path, make_rows(20, seed=0))
    facts = Facts(str(tmp_path / "facts"), parser.parse(document))
    files = facts.of_files([path])
    with monkeypatch.context() as patched:
        patched.delattr(type(facts._digests), "of")
        facts.check_unchanged(files)
    writing.write_examples(path, make_rows(21, seed=1))
    with pytest.raises(DataError, match="has changed since"):
        facts.check_unchanged(files)


def test_a_day_that_was_written_again_during_the_training_is_not_judged(
    document, tmp_path, monkeypatch
):
    """The model would have other data than its checks and its lineage."""
    paths = [str(tmp_path / f"{name}.tfrecord") for name in ("train", "evaluate")]
    for path in paths:
        writing.write_examples(path, make_rows(20, seed=0))
    facts = Facts(str(tmp_path / "facts"), parser.parse(document))
    files = facts.of_files(paths)
    facts.check_unchanged(files)
    os.remove(paths[0])
    facts.check_unchanged(files)  # A day that is gone after its training was trained as it was.
    writing.write_examples(paths[1], make_rows(20, seed=1))
    (now,) = facts.of_files(paths[1:])
    with pytest.raises(DataError) as error:
        facts.check_unchanged(files)
    assert str(error.value) == (
        f"{paths[1]} has changed since this cycle chose its periods, so its model may have other "
        f"data than its checks: expected the SHA-256 {files[1].sha256}, got {now.sha256}. Start "
        "again: the next cycle reads it as it is now."
    )

    def unavailable(path):
        raise tf.errors.UnavailableError(None, None, "try again")

    with monkeypatch.context() as patched:
        patched.setattr(facts._digests, "of", unavailable)
        with pytest.raises(tf.errors.UnavailableError):  # It says nothing about the data.
            facts.check_unchanged(files)
    evaluate = PeriodData(name="2026-01-02", digest="", rows=20, files=(files[1],))
    running = types.SimpleNamespace(facts=facts, window=reports.window(evaluate=(evaluate,)))
    with pytest.raises(DataError, match="has changed since"):
        stages.judge(running)
