"""`monitor` on logs with known truth: the same numbers as scikit-learn, SciPy and NumPy."""

from __future__ import annotations

import copy
import json
import os

import numpy as np
import pytest
import scipy.spatial.distance
import sklearn.metrics
from tensorflow_serving.apis import prediction_log_pb2

import estimator_kit as ek
from estimator_kit.config.modes import command_of
from estimator_kit.errors import Locked
from estimator_kit.monitoring import monitor
from estimator_kit.monitoring.baselines import Baseline, Baselines, summary_of_scores
from estimator_kit.monitoring.results import MonitorReport, PeriodResult
from estimator_kit.retraining.promotion import VersionMark
from feature_specs.files import locks
from feature_specs.parser import parser
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.scan import scan
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT
from tests.estimator_kit.monitoring.logs import (
    column,
    predict_log,
    records_of,
    seconds,
    write_log,
)

MONITORING = {
    "key": "impression", "label_delay": "1d", "intervals": {"samples": 50},
}  # fmt: skip
DAYS = ("2026-01-05", "2026-01-06")
ROWS = 400


def write_spec(folder, **monitoring):
    document = copy.deepcopy(DOCUMENT)
    document["features"]["impression"] = {"dtype": "string"}
    document["ignored"] = ["impression"]
    document["monitoring"] = {**MONITORING, **monitoring}
    (folder / "spec.yaml").write_text(json.dumps(document))
    return parser.load(folder / "spec.yaml")


def version(folder, number, **mark):
    path = folder / "model" / "serving" / str(number) / "assets.extra"
    path.mkdir(parents=True)
    VersionMark(**mark).save(str(path / "retraining.json"))


def truth(seed=1, rows=ROWS, days=DAYS):
    """Rows whose label has the probability of their logit."""
    random = np.random.default_rng(seed)
    logits = random.normal(-1, 1.5, rows).astype(np.float32)
    clicks = (random.random(rows) < 1 / (1 + np.exp(-logits))).astype(int)
    prices = random.choice([1.0, 2.0, 3.0, 4.0], rows, p=[0.4, 0.3, 0.2, 0.1])
    cities = random.choice(["rome", "oslo", "lima"], rows)
    start = seconds(days[0])
    step = len(days) * 86_400 / rows
    return [
        {
            "impression": f"i{i}", "time": int(start + i * step), "logit": float(logits[i]),
            "click": int(clicks[i]), "buy": 0, "price": float(prices[i]), "city": cities[i],
            "user": "ann" if i % 4 else None, "tags": ["a"],
        }
        for i in range(rows)
    ]  # fmt: skip


def write_requests(folder, rows, name="a", number=1, size=4):
    """A log in which each request has some rows."""
    logs = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        logs.append(
            predict_log(
                records_of(part, ("time", "logit")),
                {"click/logits": column([row["logit"] for row in part])},
                time=part[0]["time"],
                version=number,
            )
        )
    write_log(folder / "logs" / f"{name}.tfrecord", logs)


def write_labels(folder, rows, name="a"):
    entries = [{k: row[k] for k in ("impression", "click", "buy")} for row in rows]
    writing.write_examples(str(folder / "labels" / f"{name}.tfrecord"), entries)


def answered(p):
    """Probabilities after a model has answered them as float32 logits."""
    return 1 / (1 + np.exp(-np.log(p / (1 - p)).astype(np.float32).astype(np.float64)))


def start(folder, now="2026-01-08", **changes):
    config = ek.ExperimentConfig(**{
        "mode": "monitor", "spec": f"{folder}/spec.yaml", "model_dir": f"{folder}/model",
        "request_logs": (f"{folder}/logs",), "label_files": (f"{folder}/labels/*.tfrecord",),
        **changes,
    })  # fmt: skip
    return monitor.run(command_of(config), now=seconds(now))


@pytest.fixture
def folder(tmp_path):
    write_spec(tmp_path)
    version(tmp_path, 1, at=float(seconds("2026-01-01")))
    return tmp_path


def test_metrics_are_those_of_scikit_learn(folder):
    rows = truth()
    write_requests(folder, rows)
    write_labels(folder, rows[::-1])
    outcome = start(folder)
    assert outcome.measured == DAYS
    for day, period in zip(DAYS, outcome.report.periods):
        (result,) = period.versions
        own = [row for row in rows if seconds(day) <= row["time"] < seconds(day) + 86_400]
        labels = np.array([row["click"] for row in own])
        p = 1 / (1 + np.exp(-np.array([row["logit"] for row in own], np.float64)))
        assert period.final and result.rows == result.labeled == len(own) == 200
        assert result.requests == 50 and result.open == result.unlabeled == 0
        for name, expected in {
            "auc/click": sklearn.metrics.roc_auc_score(labels, p),
            "log_loss/click": sklearn.metrics.log_loss(labels, p),
            "calibration/click": p.mean() / labels.mean(),
        }.items():
            metric = result.metrics[name]
            assert metric.value == pytest.approx(expected, rel=1e-9), name
            assert metric.low < metric.value < metric.high and metric.rows == 200
        assert result.scores["click"].mean == pytest.approx(p.mean())
        assert result.label_means["click"] == pytest.approx(labels.mean())
        missing = np.mean([row["user"] is None for row in own])
        assert result.features["user"].missing == pytest.approx(missing)
        unknown = np.mean([row["city"] == "lima" for row in own])
        assert result.features["city"].unknown == pytest.approx(unknown)
        assert result.features["price"].drift is None
    assert "auc/buy" not in outcome.report.periods[0].versions[0].metrics


def test_an_interval_is_that_of_the_bootstrap(folder):
    rows = truth()
    write_requests(folder, rows)
    write_labels(folder, rows)
    (result,) = start(folder).report.periods[0].versions
    labels = np.array([row["click"] for row in rows[:200]])
    scores = np.array([row["logit"] for row in rows[:200]])
    random = np.random.default_rng(1)
    drawn = [random.integers(0, 200, 200) for _ in range(50)]
    values = [sklearn.metrics.roc_auc_score(labels[each], scores[each]) for each in drawn]
    low, high = np.quantile(values, [0.025, 0.975])
    assert result.metrics["auc/click"].low == pytest.approx(low)
    assert result.metrics["auc/click"].high == pytest.approx(high)


def test_drift_is_that_of_scipy_and_numpy(folder, monkeypatch):
    """Of features against the training, and of scores against the evaluation."""
    before, rows = truth(seed=2, rows=1000), truth(seed=3)
    # Shares of whole percents, because statistics keep percentiles of numbers.
    for i, row in enumerate(before):
        row["price"] = (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 4.0)[i % 10]
    for i, row in enumerate(rows):
        row["price"] = (1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0)[i % 10]
        row["city"] = "lima" if i % 3 == 0 else row["city"]
    names = ("impression", "time", "logit")
    writing.write_examples(
        str(folder / "train.tfrecord"),
        [{k: v for k, v in row.items() if k not in names} for row in before],
    )
    spec = write_spec(folder)
    evaluated = answered(np.repeat([0.1, 0.2, 0.4], [500, 300, 200]))
    logged = np.array([(0.1, 0.2, 0.2, 0.2, *[0.4] * 6)[i % 10] for i in range(ROWS)])
    for row, p in zip(rows, logged):
        row["logit"] = float(np.log(p / (1 - p)))
    baseline = Baseline(
        1,
        spec,
        statistics=scan([str(folder / "train.tfrecord")]).statistics(1),
        scores=summary_of_scores({"click": evaluated}),
    )
    monkeypatch.setattr(Baselines, "_find", lambda self, number: baseline)
    write_requests(folder, rows)
    outcome = start(folder)
    for day, period in zip(DAYS, outcome.report.periods):
        (result,) = period.versions
        own = [i for i, row in enumerate(rows) if row["time"] // 86_400 == seconds(day) // 86_400]

        def shares(values, of):
            return np.array([np.mean(np.isclose(of, value)) for value in values])

        prices = [1.0, 2.0, 3.0, 4.0]
        p = shares(prices, [row["price"] for row in before])
        q = shares(prices, [rows[i]["price"] for i in own])
        expected = scipy.spatial.distance.jensenshannon(p, q, base=2) ** 2
        price = result.features["price"]
        assert price.measure == "jensen_shannon"
        assert price.drift == pytest.approx(expected, abs=1e-9) and expected > 0.05
        moves = [
            abs(np.mean([row["city"] == city for row in before])
                - np.mean([rows[i]["city"] == city for i in own]))
            for city in ("rome", "oslo", "lima")
        ]  # fmt: skip
        assert result.features["city"].measure == "l_infinity"
        assert result.features["city"].drift == pytest.approx(max(moves), abs=1e-9)
        p, q = shares([0.1, 0.2, 0.4], evaluated), shares([0.1, 0.2, 0.4], logged[own])
        expected = scipy.spatial.distance.jensenshannon(p, q, base=2) ** 2
        assert result.scores["click"].drift == pytest.approx(expected, abs=1e-9)


def test_labels_that_come_later(folder):
    rows = truth()
    write_requests(folder, rows)
    write_labels(folder, rows[:100])
    # No row is a day old, so the labels that came do not count.
    (first,) = start(folder, now="2026-01-05T12:00").report.periods[:1]
    (result,) = first.versions
    assert not first.over and (result.open, result.labeled, result.metrics) == (200, 0, {})
    # Half of the first day is old enough.
    (first, second) = start(folder, now="2026-01-06T12:00").report.periods
    (result,) = first.versions
    assert first.over and not first.final
    # The request of the rows 100 to 103 is a day old now, and they have no label yet.
    assert (result.open, result.labeled, result.unlabeled) == (96, 100, 4)
    assert result.metrics["auc/click"].rows == 100
    write_labels(folder, rows[100:300], "b")
    (first, second) = start(folder, now="2026-01-07T12:00").report.periods
    (result,) = first.versions
    assert first.final and (result.open, result.labeled, result.unlabeled) == (0, 200, 0)
    assert not second.final and second.versions[0].open == 96
    # A label after its time changes nothing, and a row without one is not a negative.
    early = first.as_json()
    (first, second) = start(folder, now="2026-01-08").report.periods
    assert first.as_json() == early
    (result,) = second.versions
    assert (result.labeled, result.unlabeled) == (100, 100)
    assert result.metrics["auc/click"].rows == 100
    write_labels(folder, rows[300:], "c")
    outcome = start(folder, now="2026-01-09")
    assert outcome.measured == () and outcome.report.periods[1].as_json() == second.as_json()


def test_no_label_can_mean_a_number(folder):
    write_spec(folder, no_label_means={"click": 0})
    rows = truth()
    write_requests(folder, rows)
    clicked = [row for row in rows if row["click"]]
    writing.write_examples(
        str(folder / "labels" / "a.tfrecord"),
        [{"impression": row["impression"], "click": 1} for row in clicked],
    )
    (result, _) = (period.versions[0] for period in start(folder).report.periods)
    labels = [row["click"] for row in rows[:200]]
    scores = [row["logit"] for row in rows[:200]]
    assert result.labeled == sum(labels) and result.unlabeled == 200 - sum(labels)
    assert result.metrics["auc/click"].rows == 200
    expected = sklearn.metrics.roc_auc_score(labels, scores)
    assert result.metrics["auc/click"].value == pytest.approx(expected)


def test_rows_without_a_key_and_slices_and_groups(folder):
    write_spec(
        folder,
        intervals={"samples": 20, "group_by": "user"},
        conditions=[{"metric": "auc/click", "min": 0.1, "slice": "city", "min_rows": 10}],
    )
    rows = truth()
    for row in rows[:10]:
        row["impression"] = None
    write_requests(folder, rows)
    write_labels(folder, rows[10:])
    outcome = start(folder)
    (result,) = outcome.report.periods[0].versions
    assert (result.without_key, result.labeled) == (10, 190)
    slices = result.slices["auc/click"]
    assert [*slices] == ["city=lima", "city=oslo", "city=rome"]
    own = [row for row in rows[10:200] if row["city"] == "oslo"]
    expected = sklearn.metrics.roc_auc_score(
        [row["click"] for row in own], [row["logit"] for row in own]
    )
    assert slices["city=oslo"].value == pytest.approx(expected)
    assert [(f.slice, f.broken) for f in outcome.report.findings] == [
        ("city=lima", False), ("city=oslo", False), ("city=rome", False),
    ]  # fmt: skip


def test_a_period_is_measured_once_and_again_with_the_same_numbers(folder):
    rows = truth()
    write_requests(folder, rows[:300], "a")
    write_labels(folder, rows)
    path = folder / "model" / "monitor" / "periods" / "1d" / "2026-01-05.json"
    assert start(folder).measured == DAYS
    content, report = path.read_text(), (folder / "model" / "monitor.json").read_text()
    stamp = path.stat().st_mtime_ns
    again = start(folder)
    assert again.measured == () and path.stat().st_mtime_ns == stamp
    assert (folder / "model" / "monitor.json").read_text() == report
    # A log that comes later: only its period is measured again.
    write_requests(folder, rows[300:], "b")
    assert start(folder).measured == ("2026-01-06",)
    assert path.stat().st_mtime_ns == stamp
    # Everything again, from nothing or from one log instead of two.
    for name in ("logs.json", "periods/1d/2026-01-05.json"):
        os.remove(folder / "model" / "monitor" / name)
    start(folder)
    assert path.read_text() == content
    second = PeriodResult.load(str(path.with_name("2026-01-06.json"))).versions
    write_requests(folder, rows, "a")
    os.remove(folder / "logs" / "b.tfrecord")
    for name in ("2026-01-05.json", "2026-01-06.json"):
        os.remove(path.with_name(name))
    start(folder)
    assert PeriodResult.load(str(path.with_name("2026-01-06.json"))).versions == second


def test_a_late_log_of_an_old_period_is_read_with_the_others(folder):
    """The new file comes first by its name, and the other file of the period is known."""
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, rows[4:], "b")
    start(folder)
    write_requests(folder, rows[:4], "a")
    outcome = start(folder)
    assert outcome.measured == ("2026-01-05",)
    assert outcome.report.periods[0].versions[0].rows == 200
    late = outcome.report.periods[0].versions
    for name in ("logs.json", "periods/1d/2026-01-05.json"):
        os.remove(folder / "model" / "monitor" / name)
    assert start(folder).report.periods[0].versions == late


def test_deleted_logs_leave_their_periods_as_they_are(folder):
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, rows[:200], "a")
    write_requests(folder, rows[200:], "b")
    before = start(folder, now="2026-01-07T01:00").report.periods
    os.remove(folder / "logs" / "a.tfrecord")
    write_spec(folder, label_delay="2d")  # It would change the period.
    outcome = start(folder, now="2026-01-08")
    assert outcome.measured == ("2026-01-06",)
    assert outcome.report.periods[0] == before[0]


def test_a_killed_start_loses_nothing(folder, monkeypatch):
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, rows)
    expected = start(folder).report
    os.rename(folder / "model" / "monitor", folder / "elsewhere")
    save = PeriodResult.save

    def killed(self, path, **options):
        save(self, path, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PeriodResult, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            start(folder)
    names = os.listdir(folder / "model" / "monitor" / "periods" / "1d")
    assert names == ["2026-01-05.json"]
    assert start(folder).report == expected
    assert MonitorReport.load(str(folder / "model" / "monitor.json")) == expected


def test_a_damaged_log_is_left_out_and_named(folder):
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, rows[:200], "a")
    write_requests(folder, rows[200:], "b")
    path = folder / "logs" / "a.tfrecord"
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    outcome = start(folder)
    assert outcome.measured == ("2026-01-06",)
    assert [*outcome.report.left_out] == [str(path)]
    path.write_bytes(whole)
    outcome = start(folder)
    assert outcome.measured == ("2026-01-05",) and not outcome.report.left_out


def test_damaged_labels_are_an_error(folder):
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, rows)
    path = folder / "labels" / "a.tfrecord"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match=r"labels/a.tfrecord: "):
        start(folder)
    writing.write_examples(str(path), [{"click": 1, "buy": 0}])
    with pytest.raises(DataError, match=r"record 0: expected one value of 'impression', the key"):
        start(folder)
    writing.write_examples(str(path), [{"impression": 5, "click": 1, "buy": 0}])
    with pytest.raises(DataError, match=r"record 0: expected a value .* type string, .* got 5\."):
        start(folder)
    for click, reason in ((7, r"label 'click' must be in \[0, 1\]\."), ("yes", "Name: .*click")):
        writing.write_examples(str(path), [{"impression": "i9", "click": click, "buy": 0}])
        where = "--label_files: the labels of the row whose impression is 'i9' cannot be read"
        with pytest.raises(DataError, match=f"{where}: {reason}"):
            start(folder)


def test_a_later_log_of_another_model_is_an_error(folder):
    write_requests(folder, truth())
    start(folder)
    other = predict_log(records_of(truth()[:1]), {}, time=seconds("2026-01-07"), model="films")
    write_log(folder / "logs" / "b.tfrecord", [other])
    with pytest.raises(DataError, match=r"b.tfrecord: record 0: .* models, 'ads', 'films'"):
        start(folder)
    assert start(folder, request_model="ads").report.not_read == {"requests to other models": 1}


def test_traffic_that_stops_breaks_a_condition_one_period_later(folder):
    write_spec(folder, conditions=[{"metric": "requests", "min": 1, "periods": 2}])
    write_requests(folder, [row for row in truth() if row["time"] < seconds("2026-01-06")])
    for now, periods, values in (
        ("2026-01-07T12:00", ["2026-01-05"], [50.0]),
        ("2026-01-08T12:00", ["2026-01-05", "2026-01-06"], [50.0, 0.0]),
        ("2026-01-09T12:00", ["2026-01-06", "2026-01-07"], [0.0, 0.0]),
    ):
        (finding,) = start(folder, now=now).report.findings
        assert (finding.periods, finding.values) == (periods, values)
        assert finding.broken is (values == [0.0, 0.0])


def test_a_period_whose_logs_were_written_again_without_it_is_gone(folder):
    rows = truth()
    write_requests(folder, rows)
    write_labels(folder, rows)
    assert [period.name for period in start(folder).report.periods] == [*DAYS]
    write_requests(folder, [row for row in rows if row["time"] >= seconds(DAYS[1])])
    for _ in range(2):
        assert [period.name for period in start(folder).report.periods] == [*DAYS[1:]]


def test_a_key_of_another_type_is_none(folder):
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, [{**row, "impression": i} for i, row in enumerate(rows)])
    (result,) = start(folder).report.periods[0].versions
    assert (result.without_key, result.unlabeled) == (result.rows, 0)
    assert any("impression" in note for note in result.notes)


def test_hours(folder):
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, rows, size=1)
    outcome = start(folder, period="6h", now="2026-01-06T13:00")
    assert [(p.name, p.versions[0].rows, p.over) for p in outcome.report.periods] == [
        ("2026-01-05T00", 50, True), ("2026-01-05T06", 50, True), ("2026-01-05T12", 50, True),
        ("2026-01-05T18", 50, True), ("2026-01-06T00", 50, True), ("2026-01-06T06", 50, True),
        ("2026-01-06T12", 50, False), ("2026-01-06T18", 50, False),
    ]  # fmt: skip


def test_hours_of_a_zone_whose_clocks_change(folder):
    """In Berlin, 2026-03-29 has no 02:00. The period from 00:00 has five hours instead of six."""
    rows = [{**row, "time": row["time"] + seconds("2026-03-28") - seconds("2026-01-05")}
            for row in truth()]  # fmt: skip
    write_labels(folder, rows)
    write_requests(folder, rows, size=1)
    outcome = start(folder, period="6h,Europe/Berlin", now="2026-04-01")
    periods = {period.name: period for period in outcome.report.periods}
    for name, begin, hours in (("2026-03-28T18", "2026-03-28T17:00", 6),
                               ("2026-03-29T00", "2026-03-28T23:00", 5),
                               ("2026-03-29T06", "2026-03-29T04:00", 6)):  # fmt: skip
        own = [r for r in rows if 0 <= r["time"] - seconds(begin) < hours * 3600]
        assert (periods[name].start, periods[name].seconds) == (seconds(begin), hours * 3600)
        assert sum(version.rows for version in periods[name].versions) == len(own)
    assert start(folder, period="6h,Europe/Berlin", now="2026-04-01").measured == ()


def test_a_second_start_at_the_same_time_waits_for_its_turn(folder):
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, rows)
    start(folder)
    message = r"another start of --mode=monitor works in"
    lock = str(folder / "model" / "monitor" / ".lock")
    with locks.held(lock), pytest.raises(Locked, match=message):
        start(folder)


def test_no_log_is_an_error(folder):
    with pytest.raises(DataError, match=r"no file matches .*logs.* of --request_logs"):
        start(folder)


def test_what_was_not_read_stays_in_the_report(folder):
    rows = truth()
    write_labels(folder, rows)
    write_requests(folder, rows)
    session = prediction_log_pb2.PredictionLog()
    session.session_run_log.request.fetch.append("x")
    write_log(folder / "logs" / "b.tfrecord", [session, session])
    expected = {"requests of the kind session_run_log": 2}
    assert start(folder).report.not_read == expected
    assert start(folder).report.not_read == expected
