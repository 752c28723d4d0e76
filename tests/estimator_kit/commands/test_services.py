"""`--prometheus_file` and `--tracking`: who is told what at the end of a run."""

from __future__ import annotations

import sys

import pytest

import estimator_kit as ek
from estimator_kit import commands
from estimator_kit.commands import retrain
from estimator_kit.config.modes import command_of
from estimator_kit.distributed import tasks
from estimator_kit.errors import NothingToDo, Refused, Stopped
from estimator_kit.result import RunResult
from estimator_kit.retraining import cycle_files
from estimator_kit.retraining.cycle_versions import Promoted
from input_pipelines.errors import MissingPackageError
from tests.conftest import small_run
from tests.estimator_kit.observing.tracking.recording import calls
from tests.estimator_kit.observing.tracking.test_run_log import RECORDING
from tests.estimator_kit.retraining import reports
from tests.integration.retraining_data import config


@pytest.mark.ci
def test_both_services_are_told_of_a_training(ads, tmp_path):
    folder, prom = tmp_path / "run", tmp_path / "ads.prom"
    given = small_run(ads, folder, max_steps=2, exporters=("final",), report="off")
    result = commands.run(given(tracking=RECORDING, prometheus_file=str(prom)), lambda text: None)
    start, metrics, end = calls(folder)
    assert (start[2]["max_steps"], start[2]["tracking"]) == ("2", RECORDING)
    assert metrics[1]["2"]["auc/click"] == pytest.approx(result.metrics["auc/click"])
    first = metrics[1][min(metrics[1], key=int)]
    assert first["training/losses/click"] > 0
    assert end == ["end", "done", [], result.export_path]
    assert f'global_step{{model="run",model_dir="{folder}"}} 2.0\n' in prom.read_text()


@pytest.mark.parametrize(
    ("error", "status"), [(Stopped("SIGTERM"), "stopped"), (ValueError("bug"), "failed")]
)
def test_both_services_are_told_of_an_end_by_an_error(ads, tmp_path, monkeypatch, error, status):
    folder, prom = tmp_path / "run", tmp_path / "ads.prom"

    def fail(config, spec):
        RunResult(mode="train", status=status, global_step=7).save(str(folder / "result.json"))
        raise error

    monkeypatch.setattr(tasks, "train", fail)
    given = small_run(ads, folder, max_steps=2)
    with pytest.raises(type(error)):
        commands.run(given(tracking=RECORDING, prometheus_file=str(prom)), lambda text: None)
    assert calls(folder)[-1] == ["end", status, [], None]
    text = prom.read_text()
    assert "training_failed{" in text and "} 7.0\n" in text


def test_nobody_is_told_if_there_is_nothing_to_do(ads, tmp_path, monkeypatch):
    def fail(config, spec):
        raise NothingToDo("already trained")

    monkeypatch.setattr(tasks, "train", fail)
    given = small_run(ads, tmp_path / "run", max_steps=1)
    with pytest.raises(NothingToDo):
        services = {"tracking": RECORDING, "prometheus_file": str(tmp_path / "ads.prom")}
        commands.run(given(**services), lambda text: None)
    assert not (tmp_path / "run").exists() and not (tmp_path / "ads.prom").exists()


@pytest.mark.parametrize(
    ("setting", "package"),
    [({"tracking": "mlflow"}, "mlflow"), ({"prometheus_file": "a.prom"}, "prometheus_client")],
)
def test_a_missing_package_is_an_error_before_the_training(
    ads, tmp_path, monkeypatch, setting, package
):
    monkeypatch.setitem(sys.modules, package, None)
    given = small_run(ads, tmp_path / "run", max_steps=1)
    with pytest.raises(MissingPackageError, match=r"pip install 'estimator-kit\["):
        ek.run(given(**setting))
    assert not (tmp_path / "run").exists()


def cycle_that(model_dir, found, error=None):
    """Stands for `cycle.run`: writes the report of a cycle, and its version if it has one."""

    def run(config):
        folder = cycle_files.new(model_dir)
        if found is not None:
            folder.save(found)
            if found.version is not None:
                folder.save(Promoted(version=found.version, path="serving/1"))
        if error is not None:
            raise error
        return RunResult(mode="retrain"), "promoted"

    return run


def retrained(tmp_path, monkeypatch, found, error=None):
    """The calls of the tracker for a cycle that ends with a report, or with an error."""
    given = config(tmp_path, tracking=RECORDING, report="off")
    run = cycle_that(given.model_dir, found, error)
    monkeypatch.setattr(retrain.cycle, "run", run)
    if error is None:
        retrain.run(command_of(given), lambda text: None)
    else:
        with pytest.raises(type(error)):
            retrain._retrain(command_of(given), lambda text: None)
    path = tmp_path / "model" / "calls.jsonl"
    return calls(tmp_path / "model") if path.exists() else []


def test_a_promoted_cycle_tells_its_version(tmp_path, monkeypatch):
    found = reports.report(1, "promoted", version=1)
    start, metrics, end, promoted = retrained(tmp_path, monkeypatch, found)
    assert start == ["start", "model", {"cycle": "0001"}]
    assert metrics[1] == {"0": {"gate/auc/click": 0.7, "gate/log_loss/click": 0.3}}
    assert end == ["end", "promoted", [], "serving/1"]
    assert promoted == ["promoted", 1, "serving/1"]


def test_a_refused_cycle_is_logged_without_a_version(tmp_path, monkeypatch):
    found = reports.report(1, "refused")
    told = retrained(tmp_path, monkeypatch, found, Refused("refused"))
    assert [call[0] for call in told] == ["start", "metrics", "end"]
    assert told[-1][1] == "refused"


def test_a_cycle_that_did_not_begin_is_not_logged(tmp_path, monkeypatch):
    assert retrained(tmp_path, monkeypatch, None, NothingToDo("the same days")) == []
