"""How a cycle handles failures outside its stages. Nothing is trained."""

from __future__ import annotations

import datetime
import json
import logging

import pytest

from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError, NothingToDo, Stopped, TimedOut
from estimator_kit.retraining import cycle, cycle_files, lineage, stages
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.cycle_versions import Promoted
from estimator_kit.retraining.data_checks import Checked
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.promotion import Version
from estimator_kit.retraining.retention import Cleaned
from estimator_kit.retraining.training_stage import Start, Trained
from estimator_kit.retraining.vocabularies import Vocabularies
from estimator_kit.retraining.window import Window
from input_pipelines.errors import DataError
from input_pipelines.reading.periods import Periods
from tests.integration.retraining_data import config, write_spec

WINDOW = Window(as_of="2026-01-03", train=(), evaluate=(), left_out={})


@pytest.fixture
def folder(tmp_path):
    write_spec(tmp_path, label_rate={})
    return tmp_path


@pytest.fixture
def without_work(monkeypatch):
    """Replaces all stages by functions that return at once."""
    outputs = {
        "grow_vocabularies": Vocabularies(spec="spec.yaml"), "check": Checked(findings=[]),
        "train": Trained(start=Start(kind="scratch")),
        "judge": Judged(passed=True, candidate="export", rows=1, live_version=None),
        "promote": Promoted(version=1, path="1"), "clean": Cleaned(),
    }  # fmt: skip
    for name, output in outputs.items():
        monkeypatch.setattr(stages, name, lambda _, output=output: output)
    monkeypatch.setattr(cycle, "choose", lambda *arguments, **named: WINDOW)
    monkeypatch.setattr(lineage, "write", lambda *arguments, **named: {})


def test_new_pretrained_vectors_begin_a_new_cycle(folder, without_work, monkeypatch):
    monkeypatch.setattr(cycle, "_tell", lambda *arguments: None)
    monkeypatch.setattr(stages.Serving, "find", lambda *arguments: Version(number=1, path="1"))
    spec = json.loads((folder / "spec.yaml").read_text())
    spec["columns"]["city_emb"] = {
        "embedding": "city", "dimension": 2, "pretrained": {"file": "cities.txt"},
    }  # fmt: skip
    spec["groups"]["deep"].append("city_emb")
    (folder / "spec.yaml").write_text(json.dumps(spec))
    (folder / "cities.txt").write_text("oslo 3 4\n")
    cycle.run(command_of(config(folder)))
    with pytest.raises(NothingToDo):
        cycle.run(command_of(config(folder)))
    (folder / "cities.txt").write_text("oslo 3 4\nlima 1 1\n")
    cycle.run(command_of(config(folder)))
    assert [each.name for each in cycle_files.cycles(str(folder / "model"))] == ["0001", "0002"]


def test_a_serving_directory_that_cannot_be_made_stops_before_the_training(folder, without_work):
    (folder / "file").touch()
    for place in ("file", "file/live"):
        with pytest.raises(ConfigError) as error:
            cycle.run(command_of(config(folder, serving_dir=str(folder / place))))
        assert str(error.value).startswith(
            f"the serving directory {folder / place} is not writable"
        )
        assert "choose another --serving_dir" in str(error.value)
    (begun,) = cycle_files.cycles(str(folder / "model"))
    assert begun.output(Report).outcome == "failed"
    assert begun.load(Vocabularies) is None


def test_the_default_of_as_of_is_now():
    new_year = datetime.datetime(2026, 1, 1, 0, 7, tzinfo=datetime.timezone.utc).timestamp()
    assert cycle._now(Periods.of("5m"), new_year) == "2026-01-01T00-05"
    assert cycle._now(Periods.of("1d,America/New_York"), new_year) == "2025-12-31"
    of_machine = datetime.date.fromtimestamp(new_year).isoformat()
    assert cycle._now(Periods.of("1d"), new_year) == of_machine


@pytest.mark.parametrize("error", [ValueError("SECRET"), Stopped("SECRET")])
def test_once_a_cycle_is_through_nobody_who_is_told_makes_it_fail(
    folder, without_work, monkeypatch, caplog, error
):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(cycle, "_tell", fail)
    monkeypatch.setattr(stages.Serving, "find", lambda *arguments: Version(number=1, path="1"))
    with caplog.at_level(logging.WARNING):
        _, text = cycle.run(command_of(config(folder)))
    assert text.startswith("# cycle 0001 was promoted: version 1 is live\n")
    (done,) = cycle_files.cycles(str(folder / "model"))
    assert done.outcome == "promoted"
    assert done.output(Report).outcome == "promoted"
    assert f"cycle 0001 could not be reported: {type(error).__name__}" in caplog.messages
    assert "SECRET" not in caplog.text


def test_what_fails_after_the_end_of_a_cycle_is_not_reported_as_its_failure(
    folder, without_work, monkeypatch
):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cycle, "_tell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cycle.run(command_of(config(folder)))
    (done,) = cycle_files.cycles(str(folder / "model"))
    assert (done.outcome, done.output(Report).outcome) == ("promoted", "promoted")


@pytest.mark.parametrize(
    ("error", "outcome", "problem"),
    [
        (DataError("too few days"), "failed", "too few days"),
        (OSError("Input/output error"), "failed", "OSError: Input/output error"),
        (ConfigError("no such model"), "failed", "no such model"),
        (Stopped("by SIGTERM"), "stopped", "by SIGTERM"),
        (TimedOut("over its time"), "stopped", "over its time"),
    ],
)
def test_what_ends_the_choice_of_days_is_told(folder, monkeypatch, error, outcome, problem):
    told = []

    def fail(*arguments, **named):
        raise error

    monkeypatch.setattr(cycle, "choose", fail)
    monkeypatch.setattr(cycle, "_tell", lambda *arguments: told.append(arguments[-1]))
    with pytest.raises(type(error)):
        cycle.run(command_of(config(folder)))
    assert [(r.cycle, r.outcome, r.problem) for r in told] == [("0001", outcome, problem)]
    assert cycle_files.cycles(str(folder / "model")) == []


def test_a_choice_of_days_over_its_time_is_in_the_textfile(folder, monkeypatch):
    def slow(*arguments, **named):
        while True:  # Until the limit sends its signal.
            pass

    monkeypatch.setattr(cycle, "choose", slow)
    path = folder / "ads.prom"
    changed = config(folder, stage_limits=("window=0.01",), prometheus_file=str(path))
    with pytest.raises(TimedOut, match=r"^the stage window took longer than its limit of 0\.01 s"):
        cycle.run(command_of(changed))
    (line,) = [text for text in path.read_text().splitlines() if "failed{" in text]
    assert line.endswith("} 1.0")
