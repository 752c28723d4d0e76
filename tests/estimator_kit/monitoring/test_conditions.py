"""Conditions on the live version: which periods decide, and when one is broken."""

from __future__ import annotations

import math

import pytest

from estimator_kit.monitoring import monitor_page
from estimator_kit.monitoring.conditions import judge
from estimator_kit.monitoring.results import (
    FeatureResult,
    Finding,
    Inputs,
    Metric,
    MonitorReport,
    PeriodResult,
    ScoreResult,
    VersionResult,
)
from feature_specs.sections.monitoring import Monitoring

HOUR = 3600


def period(number, metric=None, *, version=7, final=True, over=True, rows=1000, **fields):
    """A period of one hour, with `auc/click` or a triple of it and its interval."""
    metrics = {}
    if metric is not None:
        value, low, high = metric if isinstance(metric, tuple) else (metric, None, None)
        metrics["auc/click"] = Metric(value=value, low=low, high=high, rows=rows)
    result = VersionResult(version=version, requests=10, rows=rows, metrics=metrics, **fields)
    return PeriodResult(
        name=f"h{number}", start=number * HOUR, seconds=HOUR, over=over, final=final,
        inputs=Inputs(files={}, settings={}, versions={}), versions=[result],
    )  # fmt: skip


def findings(measured, *, live=7, at_gate=None, silent=(), **condition):
    fields = {"metric": "auc/click", **condition}
    section = Monitoring.model_validate({"key": "k", "label_delay": "1h", "conditions": [fields]})
    return judge(section, measured, live=live, at_gate=at_gate or {}, silent=silent)


def broken(*arguments, **options):
    (finding,) = findings(*arguments, **options)
    return finding.broken


@pytest.mark.parametrize(
    ("values", "periods", "expected"),
    [
        ([0.8], 1, False),
        ([0.6], 1, True),
        ([0.6, 0.8], 1, False),
        ([0.6, 0.6], 2, True),
        ([0.6, 0.8, 0.6], 2, False),
        ([0.8, 0.6, 0.6], 2, True),
        ([0.6], 2, False),
        ([], 1, None),
    ],
)
def test_the_newest_periods_decide(values, periods, expected):
    assert broken([period(i, v) for i, v in enumerate(values)], min=0.7, periods=periods) is (
        expected
    )


def test_the_report_of_a_condition():
    (finding,) = findings([period(1, 0.61), period(2, 0.6)], min=0.7, periods=2, then="roll_back")
    assert finding.sentence == "BROKEN: auc/click min 0.7; 0.61 in h1, 0.6 in h2"
    assert finding.then == "roll_back"
    (finding,) = findings([period(1, 0.61)], min=0.7, periods=2)
    assert finding.sentence == "kept: auc/click min 0.7; 0.61 in h1; 2 periods decide"
    (finding,) = findings([], min=0.7)
    assert finding.sentence == (
        "not judged: auc/click min 0.7; no period of the live version can be judged"
    )


def test_an_interval_gives_the_benefit_of_the_doubt():
    wide, narrow = (0.6, 0.5, 0.75), (0.6, 0.55, 0.65)
    assert broken([period(1, wide)], min=0.7) is False
    assert broken([period(1, narrow)], min=0.7) is True
    assert broken([period(1, wide)], min=0.7, by="estimate") is True
    assert broken([period(1, (0.9, 0.85, 0.95))], max=0.8) is True
    assert broken([period(1, (0.9, 0.75, 0.95))], max=0.8) is False


def test_a_loss_compares_with_the_gate():
    """0.7 at the gate, and 0.62 to 0.66 now: the loss is at least 0.04."""
    now = [period(1, (0.64, 0.62, 0.66))]
    assert broken(now, max_loss=0.03, at_gate={"auc/click": 0.7}) is True
    assert broken(now, max_loss=0.05, at_gate={"auc/click": 0.7}) is False
    assert broken(now, max_loss=0.05, by="estimate", at_gate={"auc/click": 0.7}) is True
    assert broken(now, max_loss="5%", at_gate={"auc/click": 0.7}) is True
    (finding,) = findings(now, max_loss=0.03)
    assert finding.broken is None and finding.note == (
        "the gate has no evaluation of the live version, so max_loss is not judged"
    )


def test_calibration_is_best_at_one():
    def of(value, low, high):
        result = VersionResult(
            version=7, requests=1, rows=1000,
            metrics={"calibration/click": Metric(value=value, low=low, high=high, rows=1000)},
        )  # fmt: skip
        return [period(1).model_copy(update={"versions": [result]})]

    at_gate = {"calibration/click": 1.0}
    options = {"metric": "calibration/click", "max_loss": 0.1, "at_gate": at_gate}
    assert broken(of(1.2, 0.95, 1.4), **options) is False
    assert broken(of(1.2, math.exp(0.11), 1.4), **options) is True
    assert broken(of(1.1, math.exp(0.09), 1.4), **options) is False
    assert broken(of(0.8, 0.7, math.exp(-0.11)), **options) is True


def test_only_complete_periods_of_the_live_version_count():
    assert broken([period(1, 0.6, version=6)], min=0.7) is None
    assert broken([period(1, 0.6)], min=0.7, live=None) is None
    assert broken([period(1, 0.6, final=False)], min=0.7) is None
    assert broken([period(1, 0.6, over=False, final=False)], min=0.7) is None
    assert broken([period(1, 0.6, rows=99)], min=0.7) is None
    assert broken([period(1, (None, None, None))], min=0.7) is None
    # Such periods are skipped, and repair nothing.
    periods = [period(1, 0.6), period(2, 0.9, rows=99), period(3, 0.6), period(4, 0.9, final=False)]
    (finding,) = findings(periods, min=0.7, periods=2)
    assert finding.broken and finding.periods == ["h1", "h3"]


@pytest.mark.parametrize(
    ("newest", "why"),
    [
        (period(2, 0.6, final=False), "its labels are still open"),
        (period(2, 0.6, rows=99), "99 rows, fewer than min_rows 100"),
        (period(2, (None, None, None)), "it is not defined"),
        (period(2), "it was not measured"),
    ],
)
def test_a_finding_says_why_the_newest_period_does_not_count(newest, why):
    (finding,) = findings([period(1, 0.8), newest], min=0.7)
    assert (finding.broken, finding.note) == (False, f"h2 does not count: {why}")
    (finding,) = findings([newest], min=0.7)
    assert finding.broken is None and finding.note == (
        f"no period of the live version can be judged; h2 does not count: {why}"
    )


def test_periods_without_a_log_have_no_request():
    options = {"metric": "requests", "min": 5, "silent": ["h2", "h3"]}
    (finding,) = findings([period(1)], periods=2, **options)
    assert (finding.broken, finding.periods, finding.values) == (True, ["h2", "h3"], [0.0, 0.0])
    (finding,) = findings([period(1)], periods=3, **options)
    assert (finding.broken, finding.periods) == (False, ["h1", "h2", "h3"])
    assert broken([period(1)], live=None, **options) is None
    assert broken([period(1, 0.6)], min=0.7, silent=["h2"]) is True


def test_drift_shares_and_counts_need_no_labels():
    feature = FeatureResult(missing=0.3, unknown=0.2, measure="l_infinity", drift=0.4)
    score = ScoreResult(rows=1000, drift=0.25, measure="jensen_shannon")
    own = [period(1, final=False, features={"city": feature}, scores={"click": score})]
    for metric, value in {
        "drift/city": 0.4, "missing/city": 0.3, "unknown/city": 0.2, "score_drift/click": 0.25,
        "rows": 1000, "requests": 10,
    }.items():  # fmt: skip
        assert broken(own, metric=metric, max=value) is False, metric
        assert broken(own, metric=metric, max=value - 0.01) is True, metric
    few = [period(1, rows=5, features={"city": feature})]
    assert broken(few, metric="drift/city", max=0.1) is None
    assert broken(few, metric="rows", min=6) is True
    assert broken([period(1)], metric="drift/city", max=0.1) is None


def test_each_slice_has_its_own_finding():
    def sliced(number, **values):
        by_slice = {f"city={name}": Metric(value=value, rows=500) for name, value in values.items()}
        return period(number, 0.9, slices={"auc/click": by_slice})

    periods = [sliced(1, rome=0.6, oslo=0.6), sliced(2, rome=0.6, oslo=0.9)]
    options = {"min": 0.7, "slice": "city", "periods": 2}
    assert [(f.slice, f.broken) for f in findings(periods, **options)] == [
        ("city=oslo", False), ("city=rome", True),
    ]  # fmt: skip
    (finding,) = findings([period(1, 0.9)], **options)
    assert (finding.slice, finding.broken) == ("city", None)


@pytest.mark.parametrize(
    ("verdicts", "state"),
    [
        ([], "no condition is broken"),
        ([False, False], "no condition is broken"),
        ([None, False], "no condition is broken, 1 of 2 not judged"),
        ([True, None, True], "2 conditions broken, 1 of 3 not judged"),
    ],
)
def test_the_headline_counts_what_is_broken_and_what_is_not_judged(verdicts, state):
    report = MonitorReport(
        until=0, period="1h", live=7, periods=[], not_read={}, left_out={}, roll_back=False,
        rolled_back={},
        findings=[Finding(text="auc/click min 0.7", then="warn", broken=each) for each in verdicts],
    )  # fmt: skip
    assert monitor_page.headline(report) == (
        f"version 7 is live; {state}; as of 1970-01-01 00:00 UTC"
    )
