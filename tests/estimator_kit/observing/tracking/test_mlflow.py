"""`--tracking=mlflow` with a real MLflow and its store in files."""

from __future__ import annotations

import logging
import os
import socket
import time

import pytest

from estimator_kit.observing import run_log
from estimator_kit.observing.tracking import MLflowTracker, allowed_names

pytest.importorskip("mlflow")


@pytest.fixture
def tracker(tmp_path, monkeypatch):
    """A function that makes a tracker of one model, each with its own connection."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/store")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # A database needs the whole MLflow.
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "nightly")
    monkeypatch.delenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", raising=False)
    monkeypatch.chdir(tmp_path)
    return lambda: MLflowTracker("ads", f"{tmp_path}/runs/it's ads")


@pytest.fixture
def export(tmp_path):
    (tmp_path / "export" / "variables").mkdir(parents=True)
    (tmp_path / "export" / "saved_model.pb").write_text("graph")
    return str(tmp_path / "export")


def only_run(client, name="nightly"):
    experiment = client.get_experiment_by_name(name)
    (found,) = client.search_runs([experiment.experiment_id])
    return found


def test_the_address_is_not_printed(tracker, monkeypatch, capsys):
    """MLflow prints the address of a run of a server, and that may have a password."""
    from mlflow.store.tracking.rest_store import RestStore

    made = tracker()
    made.start({})
    service = made._client._tracking_client
    # What MLflow prints depends on the class of its store.
    remote = RestStore(lambda: pytest.fail("MLflow asked for the address, to print it"))
    monkeypatch.setattr(type(service), "store", property(lambda self: remote))
    service._log_url("run")
    assert capsys.readouterr().out == ""


def test_a_run_has_parameters_metrics_the_page_and_the_model(tracker, export, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("page")
    made = tracker()
    made.start({"model": "dnn", "filter": "", "long": "x" * 7000})
    made.metrics({1: {"training/loss": 0.5}, 2: {"auc/click": 0.75, "training/loss": 0.25}})
    made.end("done", [str(page)], export)
    found = only_run(made._client)
    assert found.data.params == {"model": "dnn", "long": "x" * 6000}
    assert found.data.metrics == {"training/loss": 0.25, "auc/click": 0.75}
    history = made._client.get_metric_history(found.info.run_id, "training/loss")
    assert [(entry.step, entry.value) for entry in history] == [(1, 0.5), (2, 0.25)]
    assert found.data.tags["estimator_kit.saved_model"] == export
    assert (found.info.status, found.info.run_name) == ("FINISHED", "ads")
    assert [f.path for f in made._client.list_artifacts(found.info.run_id)] == ["report.html"]


def test_more_metrics_than_a_request_may_have(tracker):
    made = tracker()
    made.start({})
    made.metrics({step: {"training/loss": float(step)} for step in range(1001)})
    history = made._client.get_metric_history(only_run(made._client).info.run_id, "training/loss")
    assert len(history) == 1001


@pytest.mark.parametrize(("status", "state"), [("stopped", "KILLED"), ("failed", "FAILED")])
def test_a_run_that_did_not_end_well(tracker, status, state):
    made = tracker()
    made.start({"model": "dnn"})
    made.end(status, [], None)
    assert only_run(made._client).info.status == state


def test_the_same_flags_go_on_with_the_run_and_others_begin_one(tracker):
    first, again, other = tracker(), tracker(), tracker()
    first.start({"epochs": "1"})
    first.end("stopped", [], None)
    again.start({"epochs": "1"})
    again.end("done", [], None)
    assert again._run_id == first._run_id
    assert only_run(again._client).info.status == "FINISHED"
    other.start({"epochs": "2"})
    assert other._run_id != first._run_id


def test_a_promoted_version_is_registered_and_live(tracker, export):
    made = tracker()
    made.start({"cycle": "0007"})
    made.end("promoted", [], export)
    made.promoted(12, export)
    found = made._client.get_model_version_by_alias("ads", "live")
    assert (int(found.version), found.tags) == (1, {"estimator_kit.serving_version": "12"})
    assert found.run_id == made._run_id
    assert os.path.exists(f"{found.source.removeprefix('file://')}/saved_model.pb")

    back = tracker()  # A rollback has no training.
    back.promoted(13, export)
    found = back._client.get_model_version_by_alias("ads", "live")
    assert found.tags == {"estimator_kit.serving_version": "13"}
    assert found.run_id == back._run_id != made._run_id


def test_names_that_mlflow_takes():
    """Different names stay different; a name that MLflow takes already stays as it is."""
    names = [
        "recall@0.5", "recall_at_0.5", "a:b", "a_b", "loss/click", "../x", "a//b", "/", "\u00e4",
    ]  # fmt: skip
    assert allowed_names(names) == {
        "recall_at_0.5": "recall_at_0.5", "recall@0.5": "recall_at_0.5_2", "a_b": "a_b",
        "a:b": "a_b_2", "loss/click": "loss/click", "../x": "x", "a//b": "a/b", "/": "_",
        "\u00e4": "__2",
    }  # fmt: skip
    long = allowed_names(["x" * 300, "x" * 301])
    assert len(set(long.values())) == 2 and max(map(len, long.values())) <= 250


def test_a_name_with_a_forbidden_character_loses_nothing(tracker, tmp_path):
    made = tracker()
    made.start({"objective@1": "click"})
    made.metrics({1: {"recall@0.5": 0.25, "loss": 0.5}, 2: {"recall@0.5": 0.75}})
    made.end("done", [], None)
    found = only_run(made._client)
    assert found.data.params == {"objective_at_1": "click"}
    assert found.data.metrics == {"recall_at_0.5": 0.75, "loss": 0.5}
    assert found.info.status == "FINISHED"


def test_what_mlflow_refuses_for_another_reason_loses_only_itself(tracker, caplog):
    made = tracker()
    made.start({})
    with caplog.at_level(logging.WARNING):
        made.metrics({1: {"loss": 0.5, "wrong": "text"}, 2: {"loss": 0.25}})
    (message,) = caplog.messages
    assert message.startswith("MLflow refused the metric 'wrong': ")
    history = made._client.get_metric_history(only_run(made._client).info.run_id, "loss")
    assert [entry.value for entry in history] == [0.5, 0.25]


def test_a_run_ends_although_its_files_are_refused(tracker, tmp_path):
    made = tracker()
    made.start({})
    with pytest.raises(OSError):
        made.end("stopped", [f"{tmp_path}/missing"], None)
    assert only_run(made._client).info.status == "KILLED"


def test_a_server_that_is_away_is_given_up_after_seconds(tracker, tmp_path, monkeypatch, caplog):
    with socket.socket() as taken:
        taken.bind(("localhost", 0))  # Bound, but nobody listens: each connection is refused.
        monkeypatch.setenv(
            "MLFLOW_TRACKING_URI", f"http://ann:secret@localhost:{taken.getsockname()[1]}"
        )
        for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT"):
            monkeypatch.delenv(name, raising=False)
        waits: list[float] = []
        monkeypatch.setattr(time, "sleep", waits.append)
        with caplog.at_level(logging.WARNING, "estimator_kit"):
            assert not run_log.log_training(tracker(), str(tmp_path), status="done")
    messages = [r.getMessage() for r in caplog.records if r.name == "estimator_kit"]
    (message,) = messages
    assert message.startswith("MLflowTracker could not log the run: MlflowException: ")
    assert "secret" not in message
    assert len(waits) <= 3 and sum(waits) <= 4 + 8 + 3  # With a random second each.
    assert int(os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"]) * 4 <= 60
