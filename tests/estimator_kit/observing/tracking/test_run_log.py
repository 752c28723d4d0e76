"""What a tracker gets of a run, and errors of its class and of its service."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from estimator_kit.errors import ConfigError
from estimator_kit.observing import run_log
from input_pipelines.errors import MissingPackageError
from tests.estimator_kit.observing.tracking.recording import calls

RECORDING = "tests.estimator_kit.observing.tracking.recording:RecordingTracker"


@pytest.fixture
def run(tmp_path):
    """A model directory with flags, two lines of training and an evaluation."""
    folder = tmp_path / "ads"
    (folder / "observed").mkdir(parents=True)
    (folder / "flags.txt").write_text(
        "--model=dnn\n--noshuffle\n--model_params=a=1\n--model_params=b=2\n"
    )
    lines = [
        {"step": 1, "loss": 0.7, "losses": {"click": 0.5}, "learning_rate": 0.1},
        {"step": 2, "loss": None, "losses": {}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "observed" / "training.jsonl").write_text(text)
    found = {"global_step": 2, "metrics": {"auc/click": 0.75, "auc/buy": None}}
    (folder / "eval_history.jsonl").write_text(json.dumps(found) + "\n")
    return folder


def test_a_tracker_gets_flags_metrics_files_and_the_model(run):
    (run / "report.html").touch()
    files = [str(run / "report.html"), str(run / "missing.html")]
    tracker = run_log.make(RECORDING, str(run))
    run_log.log_training(tracker, str(run), status="done", files=files, model="export/1")
    assert calls(run) == [
        ["start", "ads", {"model": "dnn", "shuffle": "false", "model_params": "a=1; b=2"}],
        ["metrics", {
            "1": {"training/loss": 0.7, "training/learning_rate": 0.1,
                  "training/losses/click": 0.5},
            "2": {"auc/click": 0.75},
        }],
        ["end", "done", files[:1], "export/1"],
    ]  # fmt: skip


def test_metrics_of_the_end_belong_to_the_last_step(run):
    tracker = run_log.make(RECORDING, str(run))
    run_log.log_training(
        tracker, str(run), status="refused", parameters={"cycle": "0007"},
        at_end={"gate/auc/click": 0.5, "gate/auc/buy": None},
    )  # fmt: skip
    run_log.log_promotion(tracker, 3, "serving/3")
    start, metrics, _, promoted = calls(run)
    assert start[2]["cycle"] == "0007"
    assert metrics[1]["2"] == {"auc/click": 0.75, "gate/auc/click": 0.5}
    assert promoted == ["promoted", 3, "serving/3"]


def test_an_error_of_the_service_is_a_warning(run, caplog):
    tracker = run_log.make(RECORDING.replace("Recording", "Broken"), str(run))
    with caplog.at_level(logging.WARNING):
        assert not run_log.log_training(tracker, str(run), status="done")
    # The address without its user and password.
    assert caplog.messages == [
        "BrokenTracker could not log the run: OSError: no route to https://host/api"
    ]


def test_refused_metrics_do_not_keep_the_end_away(run, caplog):
    tracker = run_log.make(RECORDING.replace("Recording", "Refusing"), str(run))
    with caplog.at_level(logging.WARNING):
        assert run_log.log_training(tracker, str(run), status="failed")
    assert [call[0] for call in calls(run)] == ["start", "end"]
    assert caplog.messages == [
        "RefusingTracker could not log the metrics of the run: ValueError: metrics/recall@0.5"
    ]


@pytest.mark.parametrize(
    ("tracking", "problem"),
    [
        ("mlflo", "--tracking: unknown service 'mlflo'. Did you mean 'mlflow'?"),
        ("no_such_module:A", "tracker 'no_such_module:A': cannot import 'no_such_module'"),
        (f"{RECORDING}s", "has no 'RecordingTrackers'. Did you mean 'RecordingTracker'?"),
        ("json:JSONDecoder", "is not a subclass of estimator_kit.Tracker. Make it one."),
        (":A", "expected package.module:ClassName, as in my_services.tracking:MyTracker"),
    ],
)
def test_a_class_that_cannot_be_used(tracking, problem):
    with pytest.raises(ConfigError) as error:
        run_log.make(tracking, "runs/ads")
    assert problem in str(error.value)


def test_the_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingPackageError) as error:
        run_log.make("mlflow", "runs/ads")
    assert str(error.value).startswith(
        "--tracking=mlflow needs the package mlflow-skinny. Install it with `pip install "
        "'estimator-kit[mlflow]'` ("
    )
