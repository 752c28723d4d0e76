"""Monitoring of real models: a version that was made worse on purpose is rolled back."""

from __future__ import annotations

import contextlib
import json
import shutil

import numpy as np
import pytest
import sklearn.metrics

import estimator_kit as ek
from estimator_kit import exit_codes
from estimator_kit.commands import monitor as command
from estimator_kit.commands import retrain as main_command
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError, Refused, RollBack
from estimator_kit.monitoring import monitor
from estimator_kit.monitoring.results import MonitorReport
from estimator_kit.retraining import cycle, cycle_files
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.lineage import Lineage
from estimator_kit.retraining.promotion import Serving
from estimator_kit.retraining.training_stage import Start
from estimator_kit.scoring.eval_rows import EvalRows
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.parser import parser
from input_pipelines.prepare.analyze.scan import scan
from input_pipelines.record_files import writing
from tests.conftest import make_rows
from tests.estimator_kit.monitoring.logs import predict_log, records_of, seconds, write_log
from tests.integration.retraining_data import config, write_spec

MONITORING = {
    "key": "impression", "label_delay": "1h", "intervals": {"samples": 50},
    "conditions": [
        {"metric": "auc/click", "max_loss": 0.1, "periods": 2, "then": "roll_back"},
        {"metric": "drift/price", "max": 0.2},
    ],
}  # fmt: skip
ROWS = 300


def rows_of(day, *, flipped=False):
    """Rows in which a click depends on the price; `flipped`, in the opposite way."""
    rows = make_rows(ROWS, seed=day)
    for i, row in enumerate(rows):
        click = int(row["price"] > 5) ^ (i % 10 == 0)  # With some noise.
        row.update(impression=f"{day}-{i}", click=int(click ^ flipped), buy=0)
    return rows


def write_days(folder, days, **options):
    for day in days:
        place = folder / "data" / f"dt=2026-01-{day:02d}"
        writing.write_examples(str(place / "part-0.tfrecord"), rows_of(day, **options))
        (place / "_SUCCESS").touch()


def log_day(folder, day, version, *, place="serving"):
    """The requests of a day, which a version really answers, and their labels."""
    rows = rows_of(day)
    records = records_of(rows, ("row",))
    logs = []
    with contextlib.closing(LoadedModel(f"{folder}/model/{place}/{version}", 0)) as model:
        for start in range(0, len(rows), 10):
            part = np.array(records[start : start + 10], np.object_)
            outputs = model.run("predict_examples", {"examples": part}, ["click/logits"])
            time = seconds(f"2026-01-{day:02d}") + 240 * start
            logs.append(
                predict_log(
                    part.tolist(), outputs, time=time, version=version, signature="predict_examples"
                )
            )
    write_log(folder / "logs" / f"day{day}-{place}.tfrecord", logs)
    labels = [{k: row[k] for k in ("impression", "click", "buy")} for row in rows]
    writing.write_examples(str(folder / "labels" / f"day{day}.tfrecord"), labels)


def monitoring(**changes):
    return ek.ExperimentConfig(**{
        "mode": "monitor", "spec": "spec.yaml", "model_dir": "model", "request_logs": ("logs",),
        "label_files": ("labels/*.tfrecord",), **changes,
    })  # fmt: skip


@pytest.fixture
def two_versions(tmp_path, monkeypatch, once):
    """Version 1 learned true labels, and version 2, which is live, learned the opposite."""

    def make(folder):
        monkeypatch.chdir(folder)
        write_spec(folder, gate="off", label_rate={}, warm_start="none")
        document = json.loads((folder / "spec.yaml").read_text())
        document["features"]["impression"] = {"dtype": "string"}
        document["ignored"] = ["impression"]
        document["monitoring"] = MONITORING
        (folder / "spec.yaml").write_text(json.dumps(document))
        write_days(folder, (1, 2, 3))
        cycle.run(command_of(config(as_of="2026-01-03", epochs=30)))
        write_days(folder, (4, 5, 6), flipped=True)
        cycle.run(command_of(config(as_of="2026-01-06", epochs=30)))

    shutil.copytree(once("monitoring", make), tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.mark.ci
def test_a_version_made_worse_on_purpose_is_rolled_back_within_two_periods(
    two_versions, report_page
):
    folder = two_versions
    serving = Serving("model/serving", "model")
    log_day(folder, 3, 1)
    log_day(folder, 7, 2)
    # After one bad period, nothing happens yet.
    outcome = monitor.run(command_of(monitoring(rollback=True)), now=seconds("2026-01-08T02:00"))
    assert outcome.rolled_back is None and outcome.why_not == "" and serving.live.number == 2
    good, bad = (period.versions[0] for period in outcome.report.periods)
    assert good.metrics["auc/click"].low > 0.7 and bad.metrics["auc/click"].high < 0.3
    log_day(folder, 8, 2)
    told = []
    with pytest.raises(RollBack) as error:
        command.run(command_of(monitoring(monitor_until="2026-01-09T02:00Z")), told.append)
    assert exit_codes.exit_code(error.value) == 76
    assert str(error.value).startswith(
        "version 2 should be rolled back: --rollback would make version 1 live again\n"
        "BROKEN: auc/click max_loss 0.1; "
    )
    assert serving.live.number == 2 and told[-1] == "report: model/monitor.html"
    settings = {
        "monitor_until": "2026-01-09T02:00Z", "rollback": True, "prometheus_file": "a.prom",
    }  # fmt: skip
    result = command.run(command_of(monitoring(**settings)), told.append)
    assert result.mode == "monitor"
    assert told[-2].endswith(
        "version 3 is live. It is a copy of version 1, and replaces version 2."
    )
    live = serving.live
    assert (live.number, live.cycle, live.rollback_of, live.rejected) == (3, "0001", 1, 2)
    assert live.reason.startswith("BROKEN: auc/click max_loss 0.1; ")
    noted = cycle_files.find("model", "2").output(Lineage).rolled_back
    assert (noted.version, noted.by, noted.reason) == (2, 3, live.reason)
    assert cycle_files.find("model", "1").output(Lineage).rolled_back is None
    # The same command again changes nothing.
    command.run(command_of(monitoring(**settings)), told.append)
    assert serving.live.number == 3
    report = MonitorReport.load("model/monitor.json")
    assert report.live == 3 and report.rolled_back == {"2": 3} and not report.roll_back
    page = (folder / "model/monitor.html").read_text()
    for text in ("version 3 is live; no condition is broken", "Version 2 was rolled back; version"):
        assert text in page
    text = (folder / "a.prom").read_text()
    assert 'estimator_kit_monitoring_live_version{model="model"' in text
    assert 'metric="auc/click"' in text
    # The next cycle starts from the good model, although the bad one was trained last.
    document = json.loads((folder / "spec.yaml").read_text())
    document["retraining"]["warm_start"] = "last"
    (folder / "spec.yaml").write_text(json.dumps(document))
    write_days(folder, (7, 8, 9))
    cycle.run(command_of(config(as_of="2026-01-09", epochs=1)))
    start = cycle_files.find("model", "3").output(Start)
    assert (start.kind, start.cycle) == ("live", "0001")
    assert start.reason == (
        "not from the last cycle: monitoring rolled back the model of cycle 0002"
    )


@pytest.mark.ci
def test_a_version_is_compared_with_its_training_and_its_evaluation(two_versions):
    """The records and the scores themselves have the same numbers."""
    folder = two_versions
    log_day(folder, 7, 2)
    outcome = monitor.run(command_of(monitoring()), now=seconds("2026-01-08T02:00"))
    (result,) = outcome.report.periods[0].versions
    assert (
        result.version == 2 and result.notes == [] and (result.requests, result.rows) == (30, 300)
    )
    spec = parser.load("spec.yaml")
    data = [f"data/dt=2026-01-0{day}/part-0.tfrecord" for day in (4, 5)]
    cities = {"rome": 0, "oslo": 0, "lima": 0}
    before = scan(data).statistics(2).features["city"].words.top
    now = [row["city"] for row in rows_of(7)]
    moved = max(abs(count / 600 - now.count(name) / 300) for name, count in before)
    assert {name for name, _ in before} == {*cities}
    assert result.features["city"].drift == pytest.approx(moved)
    # The vocabulary of the version has all three cities.
    assert result.features["city"].unknown == 0.0
    assert result.features["price"].measure == "jensen_shannon"
    assert 0 < result.features["price"].drift < 0.05
    rows = EvalRows(spec, ["data/dt=2026-01-06/part-0.tfrecord"], features=(), batch_size=100)
    scored = rows.predictions("model/serving/2", ["click"])["click"]
    p = 1 / (1 + np.exp(-scored))
    assert abs(result.scores["click"].mean - p.mean()) < 0.1
    assert result.scores["click"].drift < 0.1
    labels = [row["click"] for row in rows_of(7)]
    asked = EvalRows(spec, _written(folder), features=(), batch_size=100)
    own = asked.predictions("model/serving/2", ["click"])["click"]
    expected = sklearn.metrics.roc_auc_score(labels, own)
    assert result.metrics["auc/click"].value == pytest.approx(expected)


def _written(folder):
    writing.write_examples(str(folder / "day7.tfrecord"), rows_of(7))
    return [str(folder / "day7.tfrecord")]


@pytest.mark.ci
def test_a_candidate_answers_logged_requests_and_becomes_the_canary(two_versions, report_page):
    """Version 2 learned the opposite labels, so a candidate of true labels is far from it."""
    folder = two_versions
    log_day(folder, 7, 2)
    document = json.loads((folder / "spec.yaml").read_text())
    bounds = {"shadow_difference": 0.01, "shadow_order": 0.01, "shadow_top_k": 0.01}

    def gate(**changes):
        conditions = [{"metric": f"{k}/click", "max": v} for k, v in {**bounds, **changes}.items()]
        document["retraining"]["gate"] = {
            "conditions": conditions, "shadow": {"requests": 20, "top_k": 3},
        }  # fmt: skip
        (folder / "spec.yaml").write_text(json.dumps(document))

    gate()
    write_days(folder, (7, 8, 9))
    settings = {
        "as_of": "2026-01-09", "epochs": 30, "promote_as": "canary", "request_logs": ("logs",),
    }  # fmt: skip
    with pytest.raises(ConfigError, match="--request_logs is missing"):
        cycle.run(command_of(config(**{**settings, "request_logs": ()})))
    with pytest.raises(Refused):
        cycle.run(command_of(config(**settings)))
    judged = cycle_files.find("model", "3").output(Judged)
    assert [finding.passed for finding in judged.findings] == [False, False, False]
    assert judged.findings[0].note == (
        "20 logged requests, 200 rows, 2026-01-07T06:40:00Z to 2026-01-07T19:20:00Z"
    )
    # The last 20 of 30 requests with 10 rows each, answered by both models.
    records = records_of(rows_of(7), ("row",))[100:]
    candidate, live = (
        _logits(path, records).reshape(20, 10) for path in (judged.candidate, "model/serving/2")
    )
    difference = np.abs(1 / (1 + np.exp(-candidate)) - 1 / (1 + np.exp(-live))).mean()
    pairs = [(i, j) for i in range(10) for j in range(i)]
    order = np.mean([
        [np.sign(c[i] - c[j]) != np.sign(v[i] - v[j]) for i, j in pairs]
        for c, v in zip(candidate, live)
    ])  # fmt: skip
    top = [
        1 - len({*np.argsort(-c)[:3].tolist()} & {*np.argsort(-v)[:3].tolist()}) / 3
        for c, v in zip(candidate, live)
    ]
    expected = {
        "shadow_difference/click": difference, "shadow_order/click": order,
        "shadow_top_k/click": np.mean(top),
    }  # fmt: skip
    assert difference > 0.2 and order > 0.5
    for name, value in expected.items():
        assert judged.measured[name] == pytest.approx(value, abs=1e-6), name
    # With other limits, the same candidate is judged again, and becomes the canary.
    gate(**dict.fromkeys(bounds, 1.0))
    _, text = cycle.run(command_of(config(**settings)))
    assert text.startswith("# cycle 0003 (2026-01-09) passed the gate: version 3 is the canary; ")
    serving = Serving("model/serving", "model")
    assert serving.live.number == 2 and serving.canaries.live.number == 3
    log_day(folder, 9, 2)
    log_day(folder, 9, 3, place="serving.canary")
    outcome = monitor.run(command_of(monitoring()), now=seconds("2026-01-10T02:00"))
    report = outcome.report
    assert (report.live, report.canary) == (2, 3)
    auc = next(each for each in report.compared if each.metric == "auc/click")
    assert auc.period == "2026-01-09" and auc.low > 0.3
    assert auc.difference == pytest.approx(auc.canary.value - auc.live.value)
    run = ek.ExperimentConfig(mode="promote", model_dir="model", to=3)
    told = []
    for _ in range(2):
        main_command.run(command_of(run), told.append)
    assert told == [
        "version 4 is live. It is a copy of canary 3 of cycle 0003, and replaces version 2.",
        "version 4 is live already. It is a copy of canary 3.",
    ]
    assert cycle_files.find("model", "3").output(Lineage).canary.promoted_as == 4
    records = records_of(rows_of(7), ("row",))
    assert np.array_equal(_logits("model/serving/4", records), _logits(judged.candidate, records))


def _logits(path, records):
    with contextlib.closing(LoadedModel(path, 0)) as model:
        part = np.array(records, np.object_)
        outputs = model.run("predict_examples", {"examples": part}, ["click/logits"])
        return outputs["click/logits"][:, 0].astype(np.float64)
